"""How a fault is described, when it is due, and how often."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_local.data_plane import Direction, Fault, FaultKind, FaultPlan, FaultSpecError, Scope

# Words


def test_the_text_form_says_everything_the_fields_do() -> None:
    text = "go-away-now, random=2..9, seed=7, times=every, direction=to-container, endpoint=dev-voice-stt, code=CANCEL"
    assert Fault.parse(text) == Fault(
        kind=FaultKind.GO_AWAY_NOW,
        random=(2, 9),
        seed=7,
        times=None,
        direction=Direction.TO_CONTAINER,
        endpoint="dev-voice-stt",
        code="CANCEL",
    )
    assert Fault.parse("stop-writing,scope=connection,after-seconds=1.5") == Fault(
        kind=FaultKind.STOP_WRITING, scope=Scope.CONNECTION, after_seconds=1.5
    )


def test_the_json_form_is_the_fields() -> None:
    assert Fault.from_json('{"kind": "refuse", "status": 429, "times": 2}') == Fault(
        kind=FaultKind.REFUSE, status=429, times=2
    )


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_needs_its_name_and_perhaps_seconds(kind: FaultKind) -> None:
    seconds = ",seconds=0.5" if kind in {"slow-headers", "delay", "stall"} else ""
    fault = Fault.parse(f"{kind}{seconds}")
    assert (fault.kind, fault.times) == (kind, 1)
    assert Fault.from_json(fault.model_dump_json()) == fault


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("reset", ["kind must be one of refuse, slow-headers, kill-connection"]),
        ("reset-stream,afer=5", ["there is no field afer; there are kind, before_headers, after,"]),
        ("reset-stream,after=-1,times=0", ["after: Input should be greater", "times: Input should be greater"]),
        ("reset-stream,after=1,random=1..3", ["after and random exclude one another"]),
        ("reset-stream,random=3..1", ["random=3..1 is empty"]),
        ("reset-stream,random=3", ["random:"]),
        ("reset-stream,seed=1", ["seed means nothing without random"]),
        ("reset-stream,before-headers,after=1", ["after cannot be"]),
        ("stop-reading,before-headers", ["stop-reading can happen to an open stream only"]),
        ("refuse,after=1,status=418", ["after cannot be", "status must be one of 400, 403, 424, 429, 500, 503"]),
        ("delay", ["delay needs seconds"]),
        ("reset-stream,code=OOPS", ["code must be one of CANCEL, COMPRESSION_ERROR"]),
        (
            "kill-connection,status=400,seconds=1,scope=stream,message=x",
            [f"{name} means nothing for kill-connection" for name in ("status", "seconds", "scope", "message")],
        ),
    ],
)
def test_every_problem_is_reported_at_once(text: str, words: list[str]) -> None:
    with pytest.raises(FaultSpecError) as failure:
        Fault.parse(text)
    for each in words:
        assert each in str(failure.value)
    assert text in str(failure.value)


@given(text=st.text(st.sampled_from("reset-stream,after=1.0-\x00é random"), max_size=60))
def test_any_text_is_a_fault_or_refused(text: str) -> None:
    try:
        fault = Fault.parse(text)
    except FaultSpecError:
        return
    assert fault.kind in FaultKind


# When and how often


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def due(stream: Any) -> list[str]:
    return [fault.kind for fault in stream.claim_due()]


def passes(stream: Any, direction: Direction = Direction.TO_CLIENT, count: int = 1) -> list[str]:
    stream.passed[direction] += count
    return due(stream)


def test_once_is_for_the_stream_that_gets_there_first() -> None:
    plan = FaultPlan()
    armed = plan.arm(Fault.parse("reset-stream,after=2"))
    with plan.stream("e", "slow") as slow, plan.stream("e", "fast") as fast:
        for stream in (slow, fast):
            stream.headers_sent()
            assert due(stream) == []
            assert passes(stream) == []
        assert passes(fast) == ["reset-stream"]
        assert passes(fast) == []
        assert passes(slow, count=5) == []
    assert (armed.fired, armed.spent, plan.armed) == (1, True, ())
    assert [(fired.request_id, fired.to_client, fired.to_container) for fired in plan.history] == [("fast", 2, 0)]


def test_every_time_is_once_for_each_stream() -> None:
    plan = FaultPlan()
    plan.arm(Fault.parse("reset-stream,after=1,times=every"))
    for _ in range(3):
        with plan.stream("e", "r") as stream:
            stream.headers_sent()
            assert passes(stream) == ["reset-stream"]
            assert passes(stream) == []
    assert len(plan.history) == 3


def test_two_directions_are_counted_apart() -> None:
    plan = FaultPlan()
    plan.arm(Fault.parse("reset-stream,after=2,direction=to-container"))
    with plan.stream("e", "r") as stream:
        stream.headers_sent()
        assert passes(stream, Direction.TO_CLIENT, 5) == []
        assert passes(stream, Direction.TO_CONTAINER, 2) == ["reset-stream"]


def test_before_headers_is_before_headers_only() -> None:
    plan = FaultPlan()
    plan.arm(Fault.parse("refuse"))
    plan.arm(Fault.parse("reset-stream"))
    with plan.stream("e", "r") as stream:
        assert due(stream) == ["refuse"]
        stream.headers_sent()
        assert due(stream) == ["reset-stream"]


def test_seconds_begin_with_the_headers() -> None:
    clock = Clock()
    plan = FaultPlan(clock)
    plan.arm(Fault.parse("reset-stream,after-seconds=5"))
    with plan.stream("e", "r") as stream:
        clock.now += 60
        assert (due(stream), stream.seconds_to_next()) == ([], None)
        stream.headers_sent()
        clock.now += 4
        assert (passes(stream), stream.seconds_to_next()) == ([], 1.0)
        clock.now += 1
        assert (due(stream), stream.seconds_to_next()) == (["reset-stream"], None)


@given(seed=st.integers(0, 2**32), low=st.integers(0, 5), more=st.integers(0, 20))
def test_the_same_seed_gives_the_same_places(seed: int, low: int, more: int) -> None:
    def places() -> list[int]:
        plan = FaultPlan()
        plan.arm(Fault(kind=FaultKind.RESET_STREAM, random=(low, low + more), seed=seed, times=None))
        for _ in range(8):
            with plan.stream("e", "r") as stream:
                stream.headers_sent()
                while not due(stream):
                    stream.passed[Direction.TO_CLIENT] += 1
        return [fired.to_client for fired in plan.history]

    first = places()
    assert first == places()
    assert all(low <= place <= low + more for place in first)


def test_a_seed_that_was_drawn_can_be_given_again() -> None:
    plan = FaultPlan()
    drawn = plan.arm(Fault.parse("reset-stream,random=0..1000000"))
    again = plan.arm(Fault.parse(f"reset-stream,random=0..1000000,seed={drawn.seed}"))
    assert [drawn.draw() for _ in range(5)] == [again.draw() for _ in range(5)]


def test_only_the_endpoint_that_is_meant() -> None:
    plan = FaultPlan()
    plan.arm(Fault.parse("reset-stream,endpoint=ear"))
    with plan.stream("voice", "r") as voice, plan.stream("ear", "r") as ear:
        for stream in (voice, ear):
            stream.headers_sent()
        assert (due(voice), due(ear)) == ([], ["reset-stream"])


async def test_what_is_armed_late_wakes_open_streams_and_what_is_disarmed_does_not_happen() -> None:
    plan = FaultPlan()
    with plan.stream("e", "r") as stream:
        stream.headers_sent()
        stream.passed[Direction.TO_CLIENT] = 10
        first = plan.arm(Fault.parse("reset-stream"))
        second = plan.arm(Fault.parse("unknown-event"))
        await asyncio.wait_for(stream.changed.wait(), 1)
        assert plan.disarm(first.number)
        assert not plan.disarm(first.number)
        assert due(stream) == ["unknown-event"]
        assert second.spent
        plan.arm(Fault.parse("reset-stream"))
        plan.clear()
        assert (due(stream), plan.armed) == ([], ())
