"""A connection to a speech-to-text model on which the model has been chosen."""

import asyncio
from typing import Self

from voice_client.audio.pacing import Clock
from voice_client.errors import DeadlineError, ModelError
from voice_client.protocol import realtime
from voice_client.session.connection import Connection, StreamOpener
from voice_client.session.settings import TranscriberSettings


class RealtimeSession:
    """An open `/v1/realtime`, ready for a first or a further generation.

    Args:
        connection: the stream.
        session_id: the model's name for it.
        connect_ms: how long it took to open.
        opened_at: when it was open, in seconds of the sessions' clock.
    """

    def __init__(
        self,
        connection: Connection[realtime.ServerEvent],
        session_id: str,
        *,
        connect_ms: float,
        opened_at: float,
    ) -> None:
        self.connection = connection
        self.id = session_id
        self.connect_ms = connect_ms
        self.opened_at = opened_at

    @classmethod
    async def open(cls, opener: StreamOpener, model: str, settings: TranscriberSettings, clock: Clock) -> Self:
        """Open a stream and choose the model.

        Raises:
            VoiceError: no stream, an error of the model, or no `session.created` in time.
        """
        loop = asyncio.get_running_loop()
        started, opened_at = loop.time(), clock.now()
        connection = await Connection.open(opener, realtime.parse)
        try:
            try:
                async with asyncio.timeout(settings.session_created):
                    created = await cls._created(connection)
            except TimeoutError as error:
                raise DeadlineError(
                    f"the model sent no session.created within {settings.session_created:g} s of the connection"
                ) from error
            connect_ms = (loop.time() - started) * 1000
            await connection.send(realtime.session_update(model))
        except BaseException:
            await connection.close()
            raise
        return cls(connection, created.id, connect_ms=connect_ms, opened_at=opened_at)

    @staticmethod
    async def _created(connection: Connection[realtime.ServerEvent]) -> realtime.SessionCreated:
        while True:
            match (await connection.receive()).event:
                case realtime.SessionCreated() as created:
                    return created
                case realtime.ErrorEvent() as error:
                    raise model_error(error)
                case _:
                    continue


def model_error(event: realtime.ErrorEvent) -> ModelError:
    """Return what an error event of the model is to the caller."""
    return ModelError(
        f"the model answered with an error: {event.message}",
        error_code=event.code,
        retryable=event.passing,
        advice="Look into the endpoint's log group",
    )
