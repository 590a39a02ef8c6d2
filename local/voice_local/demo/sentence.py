"""Words nobody has prepared for: the voice speaks them and the ear reads them back.

No numbers and no words of two spellings: a transcript may write them either way. Three sentences, so that one word the
small engines mishear is a few per cent and not many.
"""

import random

_OPENINGS = ("Good morning", "Hello there", "Good evening", "Welcome back", "Thank you for waiting")
_PEOPLE = ("my sister", "our teacher", "my brother", "the old farmer", "your cousin")
_VERBS = ("found", "borrowed", "carried", "painted", "remembered")
_THINGS = ("a wooden table", "the green bicycle", "a heavy suitcase", "the silver watch", "an empty bottle")
_PLACES = ("near the river", "behind the station", "under the bridge", "beside the market")
_CLOSINGS = (
    "Please call me back tomorrow afternoon.",
    "We will meet again after the summer.",
    "The train leaves early in the morning.",
    "Nobody expected such beautiful weather.",
)


def spoken_sentences(chance: random.Random | None = None) -> str:
    """Return three short English sentences of common words, drawn anew each time."""
    pick = chance or random.SystemRandom()
    opening, person, verb, thing, place = (
        pick.choice(words) for words in (_OPENINGS, _PEOPLE, _VERBS, _THINGS, _PLACES)
    )
    return f"{opening}, {person} {verb} {thing} {place}. {' '.join(pick.sample(_CLOSINGS, 2))}"
