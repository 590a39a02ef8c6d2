"""Chunks, whole samples, loudness."""

import numpy as np

from voice_client.audio.pcm import SampleAligner, first_audible_sample, rechunk, to_pcm16


def test_chunks_have_one_length_and_lose_nothing() -> None:
    random = np.random.default_rng(3)
    blocks = [random.bytes(int(size)) for size in random.integers(0, 9_000, 60)]
    chunks = list(rechunk(iter(blocks), 4096))
    assert b"".join(chunks) == b"".join(blocks)
    assert {len(chunk) for chunk in chunks[:-1]} == {4096}
    assert 0 < len(chunks[-1]) <= 4096


def test_every_pcm16_value_survives_float() -> None:
    values = np.arange(-32768, 32768, dtype=np.int32)
    pcm = to_pcm16((values / 32768).astype(np.float32))
    assert np.array_equal(np.frombuffer(pcm, "<i2"), values)


def test_an_odd_byte_is_carried_over() -> None:
    aligner = SampleAligner()
    data = bytes(range(11))
    pieces = [aligner.align(data[a:b]) for a, b in ((0, 3), (3, 4), (4, 4), (4, 9), (9, 11))]
    assert all(len(piece) % 2 == 0 for piece in pieces)
    assert b"".join(pieces) == data[:10]
    assert aligner.pending_bytes == 1


def test_the_first_sample_that_can_be_heard() -> None:
    samples = np.zeros(1000, dtype="<i2")
    samples[100] = 300  # below -40 dBFS
    assert first_audible_sample(samples.tobytes()) is None
    samples[700] = -32768
    assert first_audible_sample(samples.tobytes()) == 700
    assert first_audible_sample(b"") is None
