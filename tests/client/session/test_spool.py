"""A window of bytes, whatever the sizes they come and go in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_client.session.spool import BLOCK_BYTES, Spool


@given(steps=st.lists(st.tuples(st.integers(0, 3 * BLOCK_BYTES), st.integers(0, 3 * BLOCK_BYTES)), max_size=12))
def test_what_was_added_is_read_until_it_is_forgotten(steps: list[tuple[int, int]]) -> None:
    spool = Spool()
    everything = b""
    for number, (added, forgotten) in enumerate(steps):
        data = bytes([number + 1, *range(1, 250)]) * (added // 250) + bytes([number]) * (added % 250)
        spool.add(data)
        everything += data
        assert spool.read(spool.start, spool.end) == everything[spool.start :]
        spool.forget(spool.start + forgotten)
        assert len(spool) == max(0, len(everything) - spool.start)
        assert len(spool._blocks) * BLOCK_BYTES < len(spool) + 2 * BLOCK_BYTES
    assert spool.read(spool.start, spool.end) == everything[spool.start :]
    middle = (spool.start + spool.end) // 2
    assert spool.read(middle, spool.end) == everything[middle:]


def test_what_is_not_there_is_not_read() -> None:
    spool = Spool()
    spool.add(bytes(10))
    spool.forget(4)
    with pytest.raises(IndexError):
        spool.read(3, 6)
    with pytest.raises(IndexError):
        spool.read(5, 11)
