"""What a run of the demo measured, as `build/demo/report.json` holds it."""

import os
from pathlib import Path

from pydantic import BaseModel, Field


class DemoReport(BaseModel):
    """The figures of one run. A field's name is a contract: scripts read the file."""

    wer_recording: float = Field(description="word error rate of the human recording, 0.0 to 1.0 and above")
    wer_roundtrip: float = Field(description="word error rate of the spoken sentence read back")
    stt_first_partial_ms: float = Field(description="first audible sample sent to first words received, milliseconds")
    stt_finalization_ms: float = Field(description="end of the speech to the final transcript, milliseconds")
    tts_ttfa_ms: float = Field(description="text sent to first audible sample received, milliseconds")
    tts_rtf: float = Field(description="synthesis time per second of audio")
    tts_frames: int = Field(description="audio frames received for the spoken text")
    seconds_total: float = Field(description="the whole run after set-up, seconds")
    left_over: int = Field(description="resources still there after cdk destroy")

    def write(self, path: Path) -> None:
        """Write the report whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
