"""`python -m voice_ops.doctor` is `voice doctor`."""

from voice_ops.cli_doctor import app

app(prog_name="voice doctor")
