"""What a run on AWS costs, said before there is anything to pay."""

from stacks.settings import StageSettings
from voice_ops.prices import ESTIMATE, endpoint_costs, money

RUN_MINUTES = 10
"""The suite without its slow tests, on endpoints that are in service: an estimate, generous."""

DEPLOY_MINUTES = 60
"""What creating both endpoints and destroying them again adds, while instances run: an estimate, generous."""


def cost_line(settings: StageSettings) -> str:
    """Return one sentence: what both endpoints of a stage cost an hour, and a run of the suite."""
    hourly = [cost.first_choice for cost in endpoint_costs(settings)]
    known = [cost for cost in hourly if cost is not None]
    if len(known) != len(hourly):
        return f"the price of stage {settings.stage}'s first choice of instances is not known"
    total = sum(known)
    return (
        f"a run of {RUN_MINUTES} minutes on a deployed stage costs about ${money(total * RUN_MINUTES / 60)}, one that "
        f"deploys and destroys it about ${money(total * (RUN_MINUTES + DEPLOY_MINUTES) / 60)} (both voices at "
        f"${money(total)} an hour; {ESTIMATE})"
    )
