"""The two endpoints as all tabs share them: looked up when first needed, one connection each for all their streams."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Literal, Self

import botocore.session  # noqa: F401 - takes a second to load: with the page, rather than at the first click

import voice_client.transport  # noqa: F401 - likewise
from voice_client.cli.options import Where
from voice_client.errors import CredentialsError, EndpointNotFoundError
from voice_client.protocol.speech import INVOCATION_PATH
from voice_client.session.connection import MessageStream
from voice_client.session.endpoint import Endpoint, EndpointAddress, open_endpoint
from voice_client.session.transcriber import DEFAULT_MODEL


class SharedEndpoints:
    """Both endpoints of a stage; an async context manager that closes what it opened.

    A look-up that failed is made anew the next time, so a stage may be deployed while the page is open. So is one whose
    endpoint refuses the credentials or is gone: who logs in or deploys again need not start the page anew.

    Args:
        ear: where the speech-to-text endpoint is.
        voice: where the text-to-speech endpoint is.
    """

    def __init__(self, ear: Where, voice: Where) -> None:
        self._where: dict[Literal["stt", "tts"], Where] = {"stt": ear, "tts": voice}
        self._found: dict[str, Endpoint] = {}
        self._stack = AsyncExitStack()
        self._locks = {"stt": asyncio.Lock(), "tts": asyncio.Lock()}

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    async def ear(self) -> Endpoint:
        """Return the speech-to-text endpoint.

        Raises:
            VoiceError: credentials, or the stage is not deployed.
        """
        return await self._get("stt", None)

    async def voice(self) -> Endpoint:
        """Return the text-to-speech endpoint.

        Raises:
            VoiceError: credentials, or the stage is not deployed.
        """
        return await self._get("tts", INVOCATION_PATH)

    def ear_model(self, endpoint: Endpoint) -> str:
        """Return the speech-to-text model to ask for: the one that was named, else the stage's."""
        return self._where["stt"]["model"] or endpoint.model or DEFAULT_MODEL

    def voice_model(self, endpoint: Endpoint) -> str | None:
        """Return the text-to-speech model to ask for: the one that was named, else the stage's."""
        return self._where["tts"]["model"] or endpoint.model

    async def _get(self, kind: Literal["stt", "tts"], path: str | None) -> Endpoint:
        async with self._locks[kind]:
            if kind not in self._found:
                place = self._where[kind]
                address = EndpointAddress(
                    kind,
                    stage=place["stage"],
                    endpoint_name=place["endpoint_name"],
                    region=place["region"],
                    endpoint_url=place["endpoint_url"],
                    ca_bundle=place["ca_bundle"],
                )
                found = await self._stack.enter_async_context(open_endpoint(address, invocation_path=path))
                self._found[kind] = replace(found, opener=partial(self._open, kind, found))
            return self._found[kind]

    async def _open(self, kind: str, found: Endpoint) -> MessageStream:
        try:
            return await found.opener()
        except (CredentialsError, EndpointNotFoundError):
            self._found.pop(kind, None)
            raise
