"""Memory holds what may have to be sent again, and no more."""

import asyncio
from typing import Any

import pytest

from voice_client.errors import BadInputError
from voice_client.session.segments import SegmentPlan
from voice_client.session.settings import Turns
from voice_client.session.tape import Tape


def tape_of(
    *, replayable: bool = True, turns: Turns | None = None, longest: float = 2.0, backlog: int | None = 65_536
) -> Tape:
    plan = SegmentPlan(turns=turns, look_for_pause=longest / 2, longest=longest)
    return Tape(plan, replayable=replayable, backlog_bytes=backlog)


@pytest.mark.parametrize("replayable", [True, False])
async def test_a_minute_passes_through_and_memory_holds_one_segment(replayable: bool, sound: Any) -> None:
    source = sound(60.0)
    tape = tape_of(replayable=replayable)
    passed = b""
    most = 0
    async with source.open(rate=16_000, chunk_bytes=4096) as reader:
        filling = asyncio.create_task(tape.fill(reader, None))
        while (segment := await tape.next_segment()) is not None:
            assert segment.start == len(passed)
            while data := await tape.read(segment, len(passed), 4096):
                passed += data
                await asyncio.sleep(0)
                most = max(most, tape.held_bytes)
            assert segment.end == len(passed)
            if replayable:  # all of it can be read again
                again = await tape.read(segment, segment.start, segment.end - segment.start)
                assert again == passed[segment.start :]
            await tape.release(segment)
        await filling
    assert passed == source.pcm
    assert tape.held_bytes == 0
    assert most <= 65_536 + 4096 + (2 * 32_000 if replayable else 0)


async def test_a_pause_is_not_kept(sound: Any) -> None:
    source = sound(30.0, lead_silence=30.0)
    tape = tape_of(turns=Turns())
    async with source.open(rate=16_000, chunk_bytes=4096) as reader:
        await asyncio.wait_for(tape.fill(reader, None), 10)
    assert await tape.next_segment() is None
    assert tape.total_bytes == len(source.pcm)
    assert tape.held_bytes < 32_000


async def test_the_source_waits_for_a_slow_stream_unless_it_is_live(sound: Any) -> None:
    for backlog, expected in ((16_384, 16_384), (None, 64_000)):
        tape = tape_of(longest=100, backlog=backlog)
        async with sound(2.0).open(rate=16_000, chunk_bytes=4096) as reader:
            filling = asyncio.create_task(tape.fill(reader, None))
            for _ in range(200):
                await asyncio.sleep(0)
            assert tape.total_bytes == expected
            filling.cancel()


async def test_a_source_that_fails_gives_what_it_had_and_then_its_error() -> None:
    class Broken:
        def __init__(self) -> None:
            self.chunks = [bytes(4096), bytes(100)]

        def __aiter__(self) -> "Broken":
            return self

        async def __anext__(self) -> bytes:
            if not self.chunks:
                raise BadInputError("damaged")
            return self.chunks.pop(0)

    tape = tape_of()
    await tape.fill(Broken(), None)
    segment = await tape.next_segment()
    assert segment is not None
    assert len(await tape.read(segment, 0, 4096)) == 4096
    assert len(await tape.read(segment, 4096, 4096)) == 100
    with pytest.raises(BadInputError, match="damaged"):
        await tape.read(segment, 4196, 4096)
