"""Text on its way to be spoken: long ones are cut into sentences while they are spoken."""

import asyncio

from voice_client.session.sentences import SentenceSplitter, split_sentences
from voice_client.session.text_input import SLICE, TextInput

TEXT = " ".join(f"This is sentence {number} of many, and it is short." for number in range(2000))


def text_input() -> TextInput:
    return TextInput(SentenceSplitter(longest=500, language="en"), longest=200_000)


async def test_the_first_sentence_of_a_long_text_waits_for_no_other() -> None:
    written = text_input()
    written.push(TEXT)
    written.end()
    assert written.begins()
    assert 0 < sum(map(len, written.sentences)) <= SLICE < len(TEXT)
    assert not written.complete


async def test_whoever_shares_the_event_loop_is_held_up_by_no_more_than_a_slice() -> None:
    written = text_input()
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(neighbour())
    written.push(TEXT)
    written.end()
    last = 0
    while await written.has(last):
        last += 1
    other.cancel()
    assert written.complete
    assert written.sentences == split_sentences(TEXT, longest=500, language="en")
    assert turns >= len(TEXT) // SLICE


async def test_a_flush_stays_where_it_was_in_a_text_that_waits() -> None:
    written = text_input()
    written.push(TEXT)
    written.push(" A half")
    written.flush()
    written.push("and another")
    written.end()
    assert not await written.has(2002)
    assert written.sentences[-2:] == ["A half", "and another"]


async def test_a_long_text_with_nothing_to_say_ends() -> None:
    written = text_input()
    written.push("😀 ... " * 20_000)
    written.end()
    assert not written.begins()
    assert not await written.has(0)
    assert written.complete
