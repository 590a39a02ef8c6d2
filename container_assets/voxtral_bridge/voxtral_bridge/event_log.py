"""The bridge's log: one JSON object a line on stdout, which SageMaker takes to CloudWatch.

Every line has `time` (ISO 8601, UTC), `level` and `event`. Sessions write:

| event | further fields |
|---|---|
| `session_opened` | `session`, `path`, `sessions` (open now, this one counted) |
| `session_first_delta` | `session`, `seconds` since the generation started |
| `session_done` | `session`, `seconds` since the generation started, `audio_seconds` given for it |
| `session_error` | `session`, `code`, `side` (`client`, `bridge` or `vllm`) |
| `session_closed` | `session`, `reason`, `close_code`, `seconds`, `audio_seconds`, `bytes_in`, ... `messages_out` |
| `health` | `healthy`, `detail` |
| `log` | `logger`, `message`, `exception`, `where`: a library's warning, or an error of the bridge itself |

Never audio, never a transcript: messages of the stream are counted, not shown.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

_LOGGER = logging.getLogger("voxtral_bridge")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            return json.dumps(line | {"event": record.getMessage()} | fields)
        line |= {"event": "log", "logger": record.name, "message": record.getMessage()}
        if record.exc_info and record.exc_info[0]:
            # Type and place alone: an exception's own text may quote what was said.
            error: BaseException | None = record.exc_info[1]
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            frames = traceback.extract_tb(error.__traceback__ if error else None)
            line["exception"] = type(error).__name__
            line["where"] = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return json.dumps(line)


def configure(level: int = logging.INFO) -> None:
    """Send every log record of this process to stdout as JSON lines; libraries from WARNING on."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    _LOGGER.setLevel(level)


def log_event(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Write one line; `fields` must hold neither audio nor text of a session."""
    _LOGGER.log(level, event, extra={"fields": fields})
