"""A small world of our own: ten servers and their tools, small enough for a model of half a million parameters to learn.

Names and descriptions are short and schemas carry no descriptions. Names follow Toucan: `<server-slug>-<tool>`.
"""

from __future__ import annotations

from dataclasses import dataclass

from slca_core.curation.synthetic.servers_daily import FOOD, HOME, SHOP, TRAVEL, WEATHER
from slca_core.curation.synthetic.servers_work import BANK, BOOKS, SPORT, STAFF, ZOO
from slca_core.curation.synthetic.world_tool import WorldTool


@dataclass(frozen=True, slots=True)
class Chain:
    """Two calls where the second needs the first one's answer: `returned` of `first` fills the slot `slot` of `second`."""

    first: str
    returned: str
    second: str
    slot: str
    asks: tuple[str, ...]


WORLD: tuple[WorldTool, ...] = (*WEATHER, *SHOP, *TRAVEL, *FOOD, *STAFF, *BOOKS, *BANK, *ZOO, *SPORT, *HOME)
BY_NAME: dict[str, WorldTool] = {tool.name: tool for tool in WORLD}

CHAINS: tuple[Chain, ...] = (
    Chain(
        "staff-office",
        "city",
        "weather-now",
        "city",
        ("How warm is it where {person} works?", "Weather in the office city of {person}?"),
    ),
    Chain("staff-office", "city", "travel-hotel", "city", ("Hotel for {n} nights in the city where {person} works?",)),
    Chain(
        "staff-boss",
        "boss",
        "staff-phone",
        "person",
        ("What is the phone of the boss of {person}?", "How can I call the boss of {person}?"),
    ),
    Chain("staff-boss", "boss", "bank-balance", "person", ("What is the balance of the boss of {person}?",)),
    Chain(
        "sport-coach",
        "coach",
        "staff-phone",
        "person",
        ("Phone number of the coach of the {team}?", "Call the coach of the {team}."),
    ),
    Chain(
        "zoo-pen", "pen", "zoo-clean", "n", ("Find the pen of the {animal} and clean it.", "Please clean the pen of the {animal}.")
    ),
    Chain(
        "books-shelf",
        "shelf",
        "books-floor",
        "n",
        ("On which floor are books about {topic}?", "Find the floor of the {topic} shelf."),
    ),
    Chain("travel-train", "gate", "travel-gate", "n", ("How long is the wait for the train from {city} to {city2}?",)),
    Chain(
        "bank-pay",
        "code",
        "bank-check",
        "item",
        ("Pay {amount} to {person} and check the payment.", "Pay {person} {amount}, is it paid?"),
    ),
)

# Questions that no tool of the world answers; curation filters their records (App. B).
OFF_TOPIC: tuple[str, ...] = (
    "Write a short poem about the {animal} please.",
    "Tell me a good joke about {food}.",
    "Who invented the first {item} and why?",
    "Explain {topic} to a child of five.",
    "Translate the word {item} into old Greek.",
    "Why do people love {topic} so much?",
)
