"""Closed pools of single common words and small numbers that fill the arguments of the small world's calls.

Pools are closed and small (32 words), so that a byte-pair vocabulary of some 1,500 entries holds each word whole and each is seen
often: at this scale a model's bottleneck is copying values, not the format of a call.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CITIES = _words(
    """
    Lagos Paris Oslo Rome Lima Cairo Delhi Tokyo Seoul Berlin Madrid Vienna Prague Dublin London Boston
    Dallas Denver Miami Austin Quito Havana Bogota Sydney Perth Hanoi Manila Kyoto Osaka Dubai Doha Tunis
    """
)

PEOPLE = _words(
    """
    Ana Omar Lena Ravi Mia Noah Liam Emma Olga Ivan Yuki Hugo Nora Amir Zoe Adam Eve Carl Dora Erik Fay Gina
    Hans Iris Jack Kate Leo Maya Nils Owen Paul Rosa
    """
)

FOODS = _words(
    """
    rice soup bread pasta pizza salad curry stew cake pie tofu ham fish chicken beef lamb pork egg cheese
    butter milk yogurt honey jam apple pear plum grape lemon lime mango melon
    """
)

ITEMS = _words(
    """
    lamp chair table desk sofa shelf clock mirror vase rug bed pillow blanket towel soap brush comb cup plate
    bowl fork spoon knife pan pot kettle toaster oven fridge fan heater radio
    """
)

ANIMALS = _words(
    """
    lion tiger bear wolf fox deer moose elk goat sheep horse zebra camel llama panda koala monkey gorilla
    lemur otter seal walrus whale dolphin shark eel turtle lizard snake frog toad newt
    """
)

TOPICS = _words(
    """
    art music history law poetry drama travel nature space physics chemistry biology geology algebra geometry
    logic ethics religion myth magic war peace trade money banking farming gardening cooking baking sewing
    knitting fashion
    """
)

TEAMS = _words(
    """
    Reds Blues Greens Stars Comets Rockets Giants Knights Kings Queens Pirates Rangers Rovers Royals Saints
    Angels Devils Dragons Griffins Titans Vikings Spartans Trojans Romans Hunters Miners Sailors Flyers Jets
    Pilots Sharks Tigers
    """
)

SONGS = _words(
    """
    Sunrise Sunset Midnight Morning Summer Winter Autumn Spring River Ocean Mountain Desert Island Forest
    Garden Meadow Rainbow Shadow Mirrors Windows Doors Stairs Bridges Highways Diamonds Silver Golden Purple
    Crimson Velvet Paper Crystal
    """
)

ROOMS = ("kitchen", "bedroom", "bathroom", "hall", "office", "attic", "cellar", "garage", "porch", "library", "studio", "nursery")

SPEEDS = ("kmh", "mph", "knots")
SIZES = ("small", "medium", "large")
CURRENCIES = ("euro", "dollar", "pound", "yen", "peso", "rupee", "franc", "krona", "real", "dinar")
CLASSES = ("first", "second", "third")
COLOURS = ("red", "green", "blue", "white", "yellow", "pink")

# A slot of a question draws from the pool of its name, trailing digits aside: {city} and {city2} are two different cities.
POOLS: dict[str, tuple[str | int | float, ...]] = {
    "city": CITIES,
    "person": PEOPLE,
    "food": FOODS,
    "item": ITEMS,
    "animal": ANIMALS,
    "topic": TOPICS,
    "team": TEAMS,
    "song": SONGS,
    "room": ROOMS,
    "speed": SPEEDS,
    "size": SIZES,
    "currency": CURRENCIES,
    "class": CLASSES,
    "colour": COLOURS,
    "n": tuple(range(2, 50)),
    "amount": tuple(whole + 0.5 for whole in range(1, 33)),
}
