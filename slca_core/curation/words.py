"""Closed pools of single common words and small numbers that fill the arguments of the small world's calls.

Pools are closed and words short so that a byte-pair vocabulary of one or two thousand entries holds most of them whole: at this
scale a model's bottleneck is copying values, not the format of a call.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CITIES = _words(
    """
    Lagos Paris Oslo Rome Lima Cairo Delhi Tokyo Seoul Berlin Madrid Vienna Prague Dublin London Boston Dallas
    Denver Miami Austin Quito Havana Bogota Sydney Perth Hanoi Manila Kyoto Osaka Dubai Doha Tunis Accra Dakar
    Nairobi Luanda Athens Sofia Warsaw Zurich Geneva Milan Naples Venice Lisbon Porto Seville Lyon Nice Munich
    Hamburg Leeds Glasgow Cardiff Bergen Malmo Turin Minsk Riga Tallinn Vilnius Kiev Ankara Beirut Amman Muscat
    Kabul Karachi Mumbai Dhaka Jakarta Taipei Beijing Macau Hobart Darwin Suva Toronto Ottawa Calgary Chicago
    Houston Phoenix Seattle Memphis
    """
)

PEOPLE = _words(
    """
    Ana Omar Lena Ravi Mia Noah Liam Emma Olga Ivan Yuki Hugo Nora Amir Zoe Adam Eve Carl Dora Erik Fay Gina
    Hans Iris Jack Kate Leo Maya Nils Owen Paul Rosa Sam Tara Uma Vera Will Xena Yara Zane Abel Bella Chen Dina
    Elsa Finn Grace Hana Igor Jana Karl Lucy Marco Nadia Oscar Petra Quinn Ruth Simon Tina Ulf Viola Wendy Alan
    Boris Clara David Edith Felix Greta Henry Ines Jonas Kira Louis Maria Nico Olive Peter Rita
    """
)

FOODS = _words(
    """
    rice soup bread pasta pizza salad curry stew cake pie tofu ham fish chicken beef lamb pork egg cheese butter
    milk yogurt honey jam apple pear plum grape lemon lime mango melon banana cherry peach berry fig date nut
    bean pea corn carrot onion garlic potato tomato pepper cabbage spinach lettuce celery radish olive mushroom
    noodle taco burrito waffle pancake muffin cookie cracker oats granola salmon tuna shrimp crab sushi ramen
    """
)

ITEMS = _words(
    """
    lamp chair table desk sofa shelf clock mirror vase rug bed pillow blanket towel soap brush comb cup plate
    bowl fork spoon knife pan pot kettle toaster oven fridge fan heater radio phone camera laptop tablet printer
    mouse keyboard screen cable battery pen pencil paper folder stapler bag wallet belt hat scarf glove sock
    shoe boot coat jacket shirt skirt dress ring watch bike helmet tent rope ladder hammer drill nail screw
    bucket broom candle
    """
)

ANIMALS = _words(
    """
    lion tiger bear wolf fox deer moose elk goat sheep horse zebra camel llama panda koala monkey gorilla lemur
    otter seal walrus whale dolphin shark eel turtle lizard snake frog toad newt crow raven eagle hawk falcon
    owl parrot swan duck goose stork crane heron pelican penguin ostrich emu bison yak hippo rhino giraffe
    elephant badger beaver rabbit hare mole bat rat squirrel hedgehog puma lynx jaguar
    """
)

TOPICS = _words(
    """
    art music history law poetry drama travel nature space physics chemistry biology geology algebra geometry
    logic ethics religion myth magic war peace trade money banking farming gardening cooking baking sewing
    knitting fashion dance film theatre opera jazz painting drawing sculpture pottery design building bridges
    roads trains ships planes cars robots coding games chess sport yoga health medicine dentistry nursing sleep
    dreams memory language grammar
    """
)

TEAMS = _words(
    """
    Reds Blues Greens Stars Comets Rockets Giants Knights Kings Queens Pirates Rangers Rovers Royals Saints
    Angels Devils Dragons Griffins Titans Vikings Spartans Trojans Romans Hunters Miners Sailors Flyers Jets
    Pilots Sharks Tigers Lions Bears Wolves Hawks Eagles Falcons Ravens Bulls Colts Mustangs Broncos Rams Bucks
    Badgers Cobras Vipers Hornets Wasps Storm Thunder Lightning Blizzard Cyclones Flames Suns Waves Rapids
    Glaciers
    """
)

SONGS = _words(
    """
    Sunrise Sunset Midnight Morning Summer Winter Autumn Spring River Ocean Mountain Desert Island Forest Garden
    Meadow Rainbow Shadow Mirrors Windows Doors Stairs Bridges Highways Diamonds Silver Golden Purple Crimson
    Velvet Paper Crystal Marble Ember Fire Smoke Ashes Echo Whisper Silence Laughter Tears Heartbeat Promise
    Secret Stranger Wanderer Traveler Dreamer Dancer Believer Forever Yesterday Tomorrow Someday Always Maybe
    Home Runaway Gravity
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
    "n": tuple(range(2, 100)),
    "amount": tuple(whole + 0.5 for whole in range(1, 100)),
}
