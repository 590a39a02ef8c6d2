"""The page's frame in Gradio: tabs, fields and colours. The live parts are elements of our own (`assets`)."""

import os
from typing import TYPE_CHECKING, Any

from voice_client.session.voices import AUTO, DEFAULT_VOICE, LANGUAGES, VOICES

if TYPE_CHECKING:
    import gradio

ASSETS_PATH = "/voice/assets"
"""Not `/assets`, which is Gradio's own."""
SYSTEM_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif")
MONOSPACE_FONTS = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")
"""Fonts that are there already: Gradio's own themes load theirs from the internet."""

LONGEST_INSTRUCTIONS = 500
"""Characters the text-to-speech server takes."""

_QUEUE_SECONDS = 1.0

_GREETING = "Good morning. This is a real voice, made sentence by sentence while you listen."

CSS = """
/* Our elements stand in line with Gradio's fields. */
.html-container { padding: 0 !important; }
/* Gradio's accent is too light on white for the names of tabs, and its hints in fields are too dim (WCAG AA). */
:root { --color-accent: #0f766e; --input-placeholder-color: #5b6778; }
.dark { --color-accent: #14b8a6; --input-placeholder-color: #a3afbf; }
/* Each line of a text runs as its script does. */
#speak-text textarea, #speak-instructions textarea { unicode-bidi: plaintext; text-align: start; }
"""

HEAD = f"""
<script type="module" src="{ASSETS_PATH}/app.js"></script>
"""


def load_gradio() -> Any:
    """Import Gradio with everything off by which it would talk to the internet.

    Raises:
        ImportError: the extra `ui` is not installed.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    import gradio  # noqa: PLC0415 - it takes seconds to load, and reads its environment when it does

    return gradio


def page(*, endpoints: str, reply: str, summary: bool) -> "gradio.Blocks":
    """Build the page.

    Args:
        endpoints: which endpoints it uses, for the heading ("stage dev").
        reply: what makes the replies of a conversation, as the user is told.
        summary: whether transcripts can be summarized.
    """
    gr = load_gradio()
    with gr.Blocks(title="Voice", analytics_enabled=False, fill_width=False) as blocks:
        gr.Markdown(f"# Voice\nReal-time speech on Amazon SageMaker AI · {_plain(endpoints)}")
        with gr.Tabs():
            with gr.Tab("Speak", id="speak"):
                gr.Textbox(
                    label="Text to speak",
                    value=_GREETING,
                    lines=4,
                    max_lines=12,
                    elem_id="speak-text",
                    interactive=True,
                )
                _voice_fields(gr, "speak", instructions=True)
                gr.HTML("<voice-speak></voice-speak>")
            with gr.Tab("Transcribe", id="transcribe"):
                gr.HTML(f'<voice-transcribe data-summary="{"yes" if summary else "no"}"></voice-transcribe>')
            with gr.Tab("Talk", id="talk"):
                gr.Markdown(f"Speak, and hear an answer. Replies come from: **{_plain(reply)}**.")
                _voice_fields(gr, "talk", instructions=False)
                gr.HTML("<voice-talk></voice-talk>")
    # Nothing of this page goes through Gradio's queue, which looks for work a thousand times a second: 6 % of a core.
    blocks._queue.sleep_when_free = _QUEUE_SECONDS
    return blocks  # type: ignore[no-any-return]


def theme() -> Any:
    """Return the page's colours and fonts."""
    gr = load_gradio()
    return gr.themes.Base(
        primary_hue="teal",
        neutral_hue="slate",
        radius_size="lg",
        font=list(SYSTEM_FONTS),
        font_mono=list(MONOSPACE_FONTS),
    )


def _voice_fields(gr: Any, tab: str, *, instructions: bool) -> None:
    with gr.Row():
        gr.Dropdown(
            list(VOICES),
            value=DEFAULT_VOICE,
            label="Voice",
            elem_id=f"{tab}-voice",
            allow_custom_value=True,
            interactive=True,
        )
        gr.Dropdown(
            [AUTO, *LANGUAGES.values()], value=AUTO, label="Language", elem_id=f"{tab}-language", interactive=True
        )
    if instructions:
        gr.Textbox(
            label="Instructions (how to say it)",
            placeholder="Warm and calm, a little slower at the end",
            max_length=LONGEST_INSTRUCTIONS,
            elem_id=f"{tab}-instructions",
            interactive=True,
        )


def _plain(text: str) -> str:
    """Return a text in which Markdown finds nothing to do."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>()#+!|~" else letter for letter in text)
