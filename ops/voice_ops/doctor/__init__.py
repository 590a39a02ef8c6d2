"""`voice doctor`: everything that can be known before a deploy, told by one command. It creates and changes nothing.

| module | what it looks at |
|---|---|
| `stage_settings` | the stage's settings, and the rest of them when some are faulty |
| `toolchain`, `builder` | Python, Node, CDK CLI, packages; Docker or another builder, its platform, its disk |
| `account`, `permissions`, `quotas` | credentials, region, bootstrap; what the caller may do; quota for every pool |
| `stack_state`, `images`, `model_hub`, `weights`, `price` | what is in the way, containers and AMIs, models, cost |
| `examination` | runs them all; `check` is one line, `report` prints them |
"""

from voice_ops.doctor.check import Check, Status
from voice_ops.doctor.examination import Examination, examine
from voice_ops.doctor.subject import Limits

__all__ = ["Check", "Examination", "Limits", "Status", "examine"]
