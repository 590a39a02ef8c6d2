"""A process that measures: plays callers as it is told on standard input, and says what happened on standard output.

    python -m voice_client.bench.worker

One JSON object a line, both ways. In: the plan first, then `{"step": ...}` and `{"stop": true}` in turn; the end of
input ends the process, whatever it does. Out: `doing` for what takes its time before it can begin, then `endpoints`;
`sample` for each utterance, `timeline`, `measured` when all of a step's window is over, `idle` after `stop`; and
`failed` instead, as its last word.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voice_client.bench.callers import CallerMaker, hearing, speaking, talking
from voice_client.bench.endpoint_facts import find_instances
from voice_client.bench.load import Step, StepLoad, root_of
from voice_client.bench.material import load_recordings, load_texts
from voice_client.bench.own_load import OwnLoad
from voice_client.bench.plan import BenchPlan
from voice_client.bench.sample import Sample
from voice_client.errors import VoiceError
from voice_client.protocol import speech
from voice_client.session.endpoint import Endpoint, EndpointAddress, open_endpoint
from voice_client.transport.address import resolve_address

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes: a plan, or a timeline of thousands of moments, is far below."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What a worker found when it looked its endpoints up."""

    make: CallerMaker
    items: int
    endpoints: Sequence[dict[str, Any]]


def say(**message: Any) -> None:
    """Write one message to whoever started this process."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


@asynccontextmanager
async def ready(plan: BenchPlan, *, first: bool) -> AsyncGenerator[Ready]:
    """Look the endpoints up, and keep a connection to each for all callers of this process.

    Args:
        plan: the run.
        first: whether this is the first process: it asks for the instances too, and makes one call to see that the
            endpoint works before anything is measured.

    Raises:
        VoiceError: an input, the credentials, an endpoint; or the one call.
    """
    async with AsyncExitStack() as stack:
        found: list[Endpoint] = []
        if first:
            say(doing="looking the endpoint up")
        if plan.kind != "tts":
            found.append(await stack.enter_async_context(open_endpoint(_address(plan, "stt"), invocation_path=None)))
        if plan.kind != "stt":
            address = _address(plan, "tts")
            opening = open_endpoint(address, invocation_path=speech.INVOCATION_PATH)
            found.append(await stack.enter_async_context(opening))
        if plan.kind == "tts":
            texts = load_texts(Path(plan.texts) if plan.texts else None)
            made = Ready(speaking(found[0], plan, texts), len(texts), [])
        else:
            recordings = load_recordings(Path(plan.recordings) if plan.recordings else None)
            maker = (
                hearing(found[0], plan, recordings)
                if plan.kind == "stt"
                else talking(found[0], found[1], plan, recordings)
            )
            made = Ready(maker, len(recordings), [])
        facts = [await _facts(endpoint, plan) for endpoint in found] if first else []
        if first:
            say(doing="one utterance, to see that the endpoint works")
            async with made.make() as caller:
                await caller.call(0)
        yield Ready(made.make, made.items, facts)


def _address(plan: BenchPlan, kind: str) -> EndpointAddress:
    place = plan.place
    name = place.speaking_endpoint if kind == "tts" and plan.kind == "talk" else place.endpoint
    return EndpointAddress(
        "stt" if kind == "stt" else "tts", place.stage, name, place.region, place.endpoint_url, place.ca_bundle
    )


async def _facts(endpoint: Endpoint, plan: BenchPlan) -> dict[str, Any]:
    assert endpoint.region is not None  # noqa: S101 - it was looked up
    instances = await find_instances(endpoint.name, endpoint.region)
    address = await asyncio.to_thread(
        resolve_address, endpoint.region, endpoint_url=plan.place.endpoint_url, ca_bundle=None
    )
    return {
        "name": endpoint.name,
        "region": endpoint.region,
        "model": plan.place.model or endpoint.model,
        "local": address.host in {"127.0.0.1", "::1", "localhost"},
        "instances": instances.as_json(),
    }


async def work(commands: asyncio.StreamReader) -> None:
    """Do what is asked until the input ends."""
    first = json.loads(await commands.readline())
    plan = BenchPlan.from_json(first["plan"])
    async with ready(plan, first=first["first"]) as found:
        say(endpoints=found.endpoints)
        while line := await commands.readline():
            asked = json.loads(line)["step"]
            step = Step(**asked | {"callers": tuple(asked["callers"])})
            load = StepLoad(step, found.make, items=found.items, kind=plan.kind, emit=_emit)
            if not await _play(load, commands):
                return
            say(idle=step.streams)


async def _play(load: StepLoad, commands: asyncio.StreamReader) -> bool:
    """Play a step until it is told to stop; returns False when the input has ended."""
    stop = asyncio.Event()
    playing = asyncio.create_task(load.run(lambda own: _measured(load, own), stop), name="voice-bench-step")
    told = asyncio.create_task(commands.readline(), name="voice-bench-commands")
    try:
        await asyncio.wait({playing, told}, return_when=asyncio.FIRST_COMPLETED)
        if not told.done():
            playing.result()  # it failed: without `stop` it does not end
        if not told.result():
            return False
        stop.set()
        await playing
    finally:
        for task in (playing, told):
            task.cancel()
        await asyncio.wait({playing, told})
    return True


def _measured(load: StepLoad, own: OwnLoad) -> None:
    if load.timeline is not None:
        say(timeline=load.timeline.as_json())
    say(measured=asdict(own))


def _emit(sample: Sample) -> None:
    say(sample=sample.as_json())


async def main() -> int:
    """Work; return the exit code."""
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), os.fdopen(0, "rb", closefd=False))
    try:
        await work(commands)
    except VoiceError as error:
        root = root_of(error)
        fields = {name: getattr(root, name) for name in ("message", "endpoint", "request_id", "retryable", "advice")}
        say(failed={"type": type(root).__name__, **fields})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
