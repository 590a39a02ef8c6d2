"""A page is loaded and speaks a text, without a browser: for a run where nothing but loopback exists.

Prints the number of bytes of audio that came.
"""

import asyncio
import json
import re
import urllib.request

from websockets.asyncio.client import connect

from tests.soak.browser.conftest import serving
from tests.soak.browser.stage import running_stage


async def speak(url: str) -> int:
    received = 0
    async with asyncio.timeout(60), connect(f"ws{url[4:]}voice/live/speak", origin=url.rstrip("/")) as socket:  # type: ignore[arg-type]
        request = {"utterance": 1, "text": "Good morning to you.", "voice": "Vivian", "language": "Auto"}
        await socket.send(json.dumps({"type": "speak", **request}))
        async for message in socket:
            if isinstance(message, bytes):
                received += len(message)
            elif json.loads(message)["type"] in {"spoken", "error"}:
                assert json.loads(message)["type"] == "spoken", message
                return received
    raise AssertionError("the page closed the socket")


def main() -> None:
    with running_stage(stt_engine="deterministic") as stage, serving(stage) as page:
        front = urllib.request.urlopen(page.url, timeout=30).read().decode()  # noqa: S310 - loopback
        assert "voice/assets/app.js" in front
        for asset in set(re.findall(r'(?:src|href)="(\.?/[^"]+)"', front)):
            urllib.request.urlopen(page.url + asset.lstrip("./"), timeout=30).close()  # noqa: S310
        print(json.dumps({"bytes": asyncio.run(speak(page.url))}))
        code, said = page.end()
        assert code == 0, said


if __name__ == "__main__":
    main()
