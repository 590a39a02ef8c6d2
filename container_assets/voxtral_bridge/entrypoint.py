"""The container's entrypoint: `python3 entrypoint.py serve` runs vLLM and the bridge until one of them ends.

A file of its own so that the package is found beside it wherever the build context lies.
"""

import sys

from voxtral_bridge.supervisor import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
