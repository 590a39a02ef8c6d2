"""`POST /invocations`: a whole recording for one text, as vLLM-Omni's `/v1/audio/speech` answers it.

SageMaker hands InvokeEndpoint to this one path; the container's router sends it on by the request's custom attributes,
`route=/v1/audio/speech`. Of the routes it knows, the stand-in has this one.
"""

import asyncio
import re
from contextlib import aclosing

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from voice_local.containers.stand_in_omni.audio_formats import encode
from voice_local.containers.stand_in_omni.request import VOICES, StreamingSpeechSessionConfig, problems_of
from voice_local.containers.stand_in_omni.session import SpeechService
from voice_local.engines.interfaces import EngineError

CUSTOM_ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"
SPEECH_ROUTE = "/v1/audio/speech"

_ROUTE = re.compile(r"(?:^|[,;\s])route=([^,;\s]+)")

_MEDIA_TYPES = {"wav": "audio/wav", "pcm": "audio/pcm", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg"}


class _SpeechRequest(StreamingSpeechSessionConfig):
    """The fields of a session and the text to speak."""

    input: str


async def answer_invocation(request: Request, service: SpeechService) -> Response:
    """Speak one text and return it as a file; a refusal is JSON with the reason and never repeats the text."""
    named = _ROUTE.search(request.headers.get(CUSTOM_ATTRIBUTES, ""))
    if named is None:
        return _refusal(404, f"No route: send the custom attributes route={SPEECH_ROUTE}")
    if named[1] != SPEECH_ROUTE:
        return _refusal(404, f"The route {named[1]} is not served here")
    return await answer_speech(request, service)


async def answer_speech(request: Request, service: SpeechService) -> Response:
    """Do the same on the container's own route, without custom attributes."""
    try:
        wanted = _SpeechRequest.model_validate_json(await request.body())
    except ValidationError as problem:
        said = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in problem.errors()]
        return _refusal(400, "; ".join(said))
    problems = problems_of(wanted)
    if wanted.model and wanted.model != service.model:
        return _refusal(404, f"The model `{wanted.model}` does not exist.")
    if not wanted.input.strip():
        problems.append("Input text cannot be empty")
    if problems:
        return _refusal(400, "; ".join(problems))
    speech = service.voice.speak(
        wanted.input.strip(),
        voice=(wanted.voice or VOICES[0]).lower(),
        language=wanted.language or "Auto",
        speed=wanted.speed,
    )
    try:
        async with aclosing(speech) as pieces:
            pcm = b"".join([piece async for piece in pieces])
    except EngineError as problem:
        return _refusal(400, str(problem))
    file = await asyncio.to_thread(encode, pcm, wanted.response_format)
    return Response(file, media_type=_MEDIA_TYPES[wanted.response_format])


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "code": status}}, status_code=status)
