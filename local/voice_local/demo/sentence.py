"""A sentence nobody has prepared for: the voice speaks it and the ear reads it back.

No numbers and no words of two spellings: a transcript may write them either way.
"""

import random

_OPENINGS = ("Good morning", "Hello there", "Good evening", "Welcome back", "Thank you for waiting")
_PEOPLE = ("the captain", "my sister", "our teacher", "the old doctor", "your cousin", "the young painter")
_VERBS = ("found", "repaired", "borrowed", "carried", "painted", "remembered")
_THINGS = (
    "a wooden table",
    "the green bicycle",
    "a heavy suitcase",
    "the silver watch",
    "an empty bottle",
    "the garden gate",
)
_PLACES = ("near the river", "behind the station", "under the bridge", "beside the market", "in the kitchen")
_CLOSINGS = (
    "Please call me back tomorrow afternoon.",
    "We will meet again after the summer.",
    "The train leaves early in the morning.",
    "Nobody expected such beautiful weather.",
)


def spoken_sentence(chance: random.Random | None = None) -> str:
    """Return two short English sentences of common words, drawn anew each time."""
    pick = chance or random.SystemRandom()
    opening, person, verb, thing, place, closing = (
        pick.choice(words) for words in (_OPENINGS, _PEOPLE, _VERBS, _THINGS, _PLACES, _CLOSINGS)
    )
    return f"{opening}, {person} {verb} {thing} {place}. {closing}"
