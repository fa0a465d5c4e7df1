"""Servers of the small world for daily life: weather, shop, travel, food and home."""

from __future__ import annotations

from slca_core.curation.synthetic.words import CLASSES, COLOURS, ROOMS, SIZES, SPEEDS
from slca_core.curation.synthetic.world_tool import BOOLEAN, INTEGER, NUMBER, STRING, Ask, WorldTool, asks, enum, object_of

WEATHER = (
    WorldTool(
        "Weather",
        "now",
        "Weather in a city.",
        {"temp": "integer"},
        object_of(city=STRING),
        {"city": "$city"},
        "city",
        asks("How warm is it in {city} now?", "What is the temp in {city} today?", "Tell me the weather in {city} please."),
    ),
    WorldTool(
        "Weather",
        "wind",
        "Wind in a city.",
        {"wind": "integer"},
        object_of(("unit",), city=STRING, unit=enum(SPEEDS)),
        {"city": "$city", "unit": "$speed"},
        "city",
        asks("How strong is the wind in {city}?", "Give me the wind in {city} in {speed}.", "What is the {city} wind in {speed}?"),
    ),
    WorldTool(
        "Weather",
        "rain",
        "Chance of rain.",
        {"rain": "integer"},
        object_of(city=STRING, days=INTEGER),
        {"city": "$city", "days": "$n"},
        "city",
        asks("Will it rain in {city} in {n} days?", "What is the rain chance in {city} in {n} days?"),
    ),
)

SHOP = (
    WorldTool(
        "Shop",
        "price",
        "Price of an item.",
        {"price": "number"},
        object_of(item=STRING),
        {"item": "$item"},
        "item",
        asks("How much is a {item} in the shop?", "What is the price of a {item}?", "What does one {item} cost me?"),
    ),
    WorldTool(
        "Shop",
        "stock",
        "Items in stock.",
        {"stock": "integer"},
        object_of(item=STRING, size=enum(SIZES)),
        {"item": "$item", "size": "$size"},
        "item",
        asks("How many {size} {item} are in stock?", "Is the {item} in {size} still in stock?"),
    ),
    WorldTool(
        "Shop",
        "order",
        "Order an item.",
        {"code": "string"},
        object_of(("colour",), item=STRING, count=INTEGER, colour=enum(COLOURS)),
        {"item": "$item", "count": "$n", "colour": "$colour"},
        "item",
        asks(
            "Please order {n} of the {item} for me.",
            "I want to buy {n} {colour} {item} today.",
            "Order {n} {item} in {colour} please.",
        ),
    ),
)

TRAVEL = (
    WorldTool(
        "Travel",
        "train",
        "Next train.",
        {"gate": "integer", "hour": "integer"},
        object_of(start=STRING, end=STRING),
        {"start": "$city", "end": "$city2"},
        "city2",
        asks("When is the train from {city} to {city2}?", "Find the next train from {city} to {city2}."),
    ),
    WorldTool(
        "Travel",
        "ticket",
        "Ticket price.",
        {"fare": "number"},
        object_of(("class",), start=STRING, end=STRING, **{"class": enum(CLASSES)}),
        {"start": "$city", "end": "$city2", "class": "$class"},
        "city2",
        asks("What is the fare from {city} to {city2}?", "Price of a {class} class ticket from {city} to {city2}?"),
    ),
    WorldTool(
        "Travel",
        "hotel",
        "Hotel in a city.",
        {"cost": "integer"},
        object_of(("pool",), city=STRING, nights=INTEGER, pool=BOOLEAN),
        {"city": "$city", "nights": "$n"},
        "city",
        asks(
            "What does a hotel in {city} cost for {n} nights?",
            Ask("Hotel in {city} for {n} nights with a pool?", {"pool": True}),
            Ask("Hotel in {city} for {n} nights without a pool?", {"pool": False}),
        ),
    ),
    WorldTool(
        "Travel",
        "gate",
        "Wait at a gate.",
        {"wait": "integer"},
        object_of(gate=INTEGER),
        {"gate": "$n"},
        "n",
        asks("How long is the wait at gate {n}?", "What is the wait at gate {n} now?"),
    ),
)

FOOD = (
    WorldTool(
        "Food",
        "cook",
        "Cooking time.",
        {"minutes": "integer"},
        object_of(food=STRING),
        {"food": "$food"},
        "food",
        asks(
            "How long should I cook the {food}?",
            "How many minutes does {food} need to cook?",
            "Tell me the cooking time of {food}.",
        ),
    ),
    WorldTool(
        "Food",
        "energy",
        "Energy of a food.",
        {"kcal": "integer"},
        object_of(food=STRING, grams=INTEGER),
        {"food": "$food", "grams": "$n"},
        "food",
        asks("How many kcal are in {n} grams of {food}?", "What is the energy of {n} grams of {food}?"),
    ),
    WorldTool(
        "Food",
        "table",
        "Book a table.",
        {"seat": "integer"},
        object_of(name=STRING, place=object_of(city=STRING, guests=INTEGER)),
        {"name": "$person", "place": {"city": "$city", "guests": "$n"}},
        "person",
        asks("Book {person} a table in {city} for {n} guests.", "Table for {n} guests in {city} under {person} please."),
    ),
)

HOME = (
    WorldTool(
        "Home",
        "light",
        "Set a light.",
        {"watts": "integer"},
        object_of(room=enum(ROOMS), on=BOOLEAN, level=INTEGER),
        {"room": "$room", "level": "$n"},
        "room",
        asks(
            Ask("Turn on the {room} light at level {n}.", {"on": True}),
            Ask("Turn off the {room} light from level {n}.", {"on": False}),
        ),
    ),
    WorldTool(
        "Home",
        "heat",
        "Heat a room.",
        {"minutes": "integer"},
        object_of(room=enum(ROOMS), temp=NUMBER),
        {"room": "$room", "temp": "$amount"},
        "room",
        asks("Heat the {room} up to {amount} degrees.", "Please set the {room} to {amount} degrees."),
    ),
    WorldTool(
        "Home",
        "play",
        "Play a song.",
        {"minutes": "integer"},
        object_of(("room",), song=STRING, room=enum(ROOMS)),
        {"song": "$song", "room": "$room"},
        "song",
        asks("Please play the song {song} for me.", "Play {song} in the {room} for me."),
    ),
)
