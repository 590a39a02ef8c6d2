"""An hour of audio takes an hour."""

from voice_client.audio.pacing import Pacer


class LateClock:
    """A clock whose sleeps end late, as they do on a busy machine."""

    def __init__(self, late: float) -> None:
        self.time = 1000.0
        self.slept = 0.0
        self._late = late

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept += seconds
        self.time += seconds + self._late


async def test_late_wake_ups_do_not_add_up_over_an_hour() -> None:
    clock = LateClock(late=0.015)
    pacer = Pacer(clock, 32_000)
    chunk = bytes(4096)
    for _ in range(3600 * 32_000 // 4096):
        await pacer.wait_for(chunk)
    assert abs(clock.time - 1000.0 - 3600.0) < 0.05


async def test_a_chunk_goes_when_its_last_sample_would_have_been_spoken() -> None:
    clock = LateClock(late=0.0)
    pacer = Pacer(clock, 32_000)
    await pacer.wait_for(bytes(4096))
    assert clock.time == 1000.128


async def test_after_a_pause_the_audio_catches_up_without_waiting() -> None:
    clock = LateClock(late=0.0)
    pacer = Pacer(clock, 32_000)
    await pacer.wait_for(bytes(4096))
    clock.time += 10.0
    slept = clock.slept
    for _ in range(50):
        await pacer.wait_for(bytes(4096))
    assert clock.slept == slept
