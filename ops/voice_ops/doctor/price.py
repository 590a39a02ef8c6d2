"""What the stage will cost an hour, before it does."""

from stacks.settings import StageSettings
from voice_constructs.prices import PRICES_AS_OF
from voice_ops.doctor.check import Check, passed, skipped, warned
from voice_ops.prices import endpoint_costs, money, per_month, region_note


def price(settings: StageSettings, region: str | None) -> Check:
    """Add the endpoints up; instances bill while they are up, whether anybody speaks or not."""
    costs = endpoint_costs(settings)
    if not costs:
        return skipped("price", "the stage is paused: nothing bills by the hour")
    unknown = sorted({name for cost in costs for name in cost.unknown})
    lowest = _sum([cost.cheapest for cost in costs])
    highest = _sum([cost.dearest for cost in costs])
    first = _sum([cost.first_choice for cost in costs])
    found = (
        f"{money(first)} $ an hour on the first choices, {_whole(per_month(first))} a month; {money(lowest)} to "
        f"{money(highest)} an hour by the type that has capacity (estimate, {PRICES_AS_OF})"
    )
    if unknown:
        return warned("price", found, f"no price is known for {', '.join(unknown)}: see AWS's pricing page")
    note = region_note(region)
    return passed("price", f"{found}{f'; {note}' if note else ''}")


def _whole(amount: float | None) -> str:
    return "unknown" if amount is None else f"{amount:,.0f}"


def _sum(amounts: list[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
