"""The steps of a study as a picture: a column a stage, an arrow a dependency, a colour a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

COLOURS: Mapping[str, str] = MappingProxyType({"cached": "#b7dfc0", "shared": "#d9d9d9", "to run": "#f6d8a8"})
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 2.6, 0.62, 1.0, 0.28


@dataclass(frozen=True, slots=True)
class Node:
    """A step: the nodes it needs, its state, and a line below its name."""

    name: str
    after: tuple[str, ...]
    state: str
    note: str = ""


def draw_dag(nodes: Sequence[Node], path: Path) -> Path:
    """Writes the picture as SVG."""
    places = _places(nodes)
    columns, rows = (max(place[axis] for place in places.values()) + 1 for axis in (0, 1))
    figure = Figure(figsize=(columns * (_WIDTH + _GAP_X) * 0.75, rows * (_HEIGHT + _GAP_Y) * 0.75 + 0.4), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    for node in nodes:
        x, y = _corner(places[node.name])
        axes.add_patch(
            FancyBboxPatch((x, y), _WIDTH, _HEIGHT, boxstyle="round,pad=0.02", facecolor=COLOURS[node.state], edgecolor="#555555")
        )
        lift = 0.14 if node.note else 0.0
        axes.text(x + _WIDTH / 2, y + _HEIGHT / 2 + lift, node.name, ha="center", va="center", fontsize=8, parse_math=False)
        axes.text(
            *(x + _WIDTH / 2, y + _HEIGHT / 2 - 0.16, node.note),
            ha="center",
            va="center",
            fontsize=6,
            color="#444444",
            parse_math=False,
        )
        for before in node.after:
            x0, y0 = _corner(places[before])
            axes.add_patch(
                FancyArrowPatch(
                    (x0 + _WIDTH + 0.03, y0 + _HEIGHT / 2),
                    (x - 0.03, y + _HEIGHT / 2),
                    arrowstyle="-|>",
                    mutation_scale=7,
                    lw=0.5,
                    zorder=0,
                )
            )
    for number, (state, colour) in enumerate(COLOURS.items()):
        axes.text(number * 1.2, 0.55, state, fontsize=7, bbox={"facecolor": colour, "edgecolor": "none", "pad": 2})
    axes.set_xlim(-0.2, columns * (_WIDTH + _GAP_X))
    axes.set_ylim(-rows * (_HEIGHT + _GAP_Y) - 0.1, 0.9)
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "slca", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _places(nodes: Sequence[Node]) -> dict[str, tuple[int, int]]:
    """(column, row) of each node: a column past everything it needs, rows in the order given."""
    places: dict[str, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node in nodes:
        column = max((places[name][0] + 1 for name in node.after), default=0)
        places[node.name] = (column, filled.get(column, 0))
        filled[column] = filled.get(column, 0) + 1
    return places


def _corner(place: tuple[int, int]) -> tuple[float, float]:
    column, row = place
    return column * (_WIDTH + _GAP_X), -(row + 1) * (_HEIGHT + _GAP_Y)
