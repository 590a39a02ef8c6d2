"""The app with cdk-nag watching: `python -m stacks.scanned_app` synthesizes as `app.py` does and reports what it finds.

Only reviews run this: cdk-nag is a development dependency, and its findings are judged by `voice_ops.review`, which
reads them, the acknowledged ones too, out of the assembly's validation report.
"""

import sys

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from app import build
from stacks.settings import SettingsError
from voice_constructs.errors import VoiceConstructError


def main() -> None:
    """Synthesize; findings end synthesis with an error after the report is written, as the CDK does for any plugin."""
    app = App()
    try:
        build(app)
    except (SettingsError, VoiceConstructError) as error:
        sys.exit(str(error))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


if __name__ == "__main__":
    main()
