"""What was heard of one input, in each of the formats."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from voice_client.cli.captions import Caption, captions, srt, vtt
from voice_client.session import Final, HearingMetrics

FORMATS = ("txt", "json", "srt", "vtt")


@dataclass(slots=True)
class Transcript:
    """The finals of one input, in order.

    Args:
        turns: whether each final is a turn of its own.
    """

    turns: bool
    finals: list[Final] = field(default_factory=list, repr=False)

    @property
    def text(self) -> str:
        """All of it, a turn a line."""
        return "\n".join(text for final in self.finals if (text := final.text.strip()))

    def metrics(self) -> HearingMetrics | None:
        """Return the measures of all of it, None when nothing was heard.

        Waits are those of the first words and of the last final; lengths and reconnects are added up; the real-time
        factor is the mean by length.
        """
        if not self.finals:
            return None
        all_of_them = [final.metrics for final in self.finals]
        seconds = sum(metrics.audio_seconds for metrics in all_of_them)
        return HearingMetrics(
            connect_ms=all_of_them[0].connect_ms,
            first_partial_ms=all_of_them[0].first_partial_ms,
            finalization_ms=all_of_them[-1].finalization_ms,
            rtf=sum(metrics.rtf * metrics.audio_seconds for metrics in all_of_them) / seconds,
            audio_seconds=seconds,
            retries=sum(metrics.retries for metrics in all_of_them),
        )

    def fields(self) -> dict[str, Any]:
        """Return it for JSON: text, usage and metrics, and the turns when there are any."""
        text = self.text if self.turns else "".join(final.text for final in self.finals)
        usages = [dataclasses.asdict(final.usage) for final in self.finals if final.usage is not None]
        metrics = self.metrics()
        found: dict[str, Any] = {
            "text": text,
            "usage": {name: sum(usage[name] for usage in usages) for name in usages[0]} if usages else None,
            "metrics": _rounded(metrics) if metrics is not None else None,
        }
        if self.turns:
            found["turns"] = [
                {
                    "start": round(final.start, 3),
                    "end": round(final.end, 3),
                    "text": final.text.strip(),
                    "metrics": _rounded(final.metrics),
                }
                for final in self.finals
            ]
        return found

    def formatted(self, kind: str) -> str:
        """Return it in one of `FORMATS`, with the line end of its last line."""
        match kind:
            case "json":
                return json.dumps(self.fields(), ensure_ascii=False) + "\n"
            case "srt":
                return srt(self._captions())
            case "vtt":
                return vtt(self._captions())
            case _:
                return f"{self.text}\n"

    def _captions(self) -> list[Caption]:
        return [caption for final in self.finals for caption in captions(final.text, start=final.start, end=final.end)]


def _rounded(metrics: HearingMetrics) -> dict[str, float | int | None]:
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in dataclasses.asdict(metrics).items()
    }
