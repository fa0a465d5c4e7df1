"""Training curves: one SVG a quantity, one colour a condition, thin raw lines a seed and a bold moving average of the seeds' mean.

The same curves give the same bytes: no date, a fixed salt for the ids, text left as text. Drawn on `Figure` objects, which leaves
pyplot's state and the backend of the process alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slca_core.errors import DataError

WINDOW = 5
SIZE_INCHES = (5.4, 3.5)

# Okabe and Ito's colour-blind-safe palette, less its black and its yellow (unreadable on one of the two backgrounds).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", ":")

INK = "#4d5258"
PAPER = "#ffffff"

_STYLE = MappingProxyType(
    {
        "svg.hashsalt": "slca",
        "svg.fonttype": "none",
        "font.family": ["DejaVu Sans"],
        "font.size": 9.0,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.7,
        "axes.unicode_minus": True,
        "xtick.color": INK,
        "ytick.color": INK,
        "text.color": INK,
        "figure.facecolor": PAPER,
        "axes.facecolor": "none",
        "lines.solid_capstyle": "round",
        "legend.frameon": False,
    }
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """What one figure shows: a column of the metrics, how it is named with its unit, and what to look for."""

    column: str
    title: str
    axis: str
    caption: str
    scale: float = 1.0


QUANTITIES = (
    Quantity("reward", "Reward", "R_tool + R_sum (score)", "Both rewards of a rollout, mean of the batch."),
    Quantity("r_tool", "Tool reward", "R_tool (score, 0 to 1)", "The process reward HierR of the tool segment."),
    Quantity(
        "r_sum",
        "Summary reward",
        "R_sum (score)",
        "The judge's rating, or the omission penalty.",
    ),
    Quantity("omission_rate", "No-call rate", "rollouts without a call (%)", "A call was expected and none was made.", 100),
    Quantity("format_valid", "Format validity", "well-formed call blocks (%)", "Call blocks that parse and fit a schema.", 100),
    Quantity(
        "tool_turns",
        "Tool turns",
        "calling turns a rollout",
        "Longer trajectories need not earn more.",
    ),
    Quantity("gradient_norm", "Gradient norm", "L2 norm", "Before clipping."),
    Quantity("kl", "KL to the reference", "nats a token", "Distance from the SFT checkpoint."),
)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One training run: `metrics` has one line a policy update, with the columns `update` and those of `QUANTITIES`."""

    condition: str
    title: str
    seed: int
    metrics: pd.DataFrame


def training_curves(curves: Sequence[Curve], out: Path) -> list[Path]:
    """Writes `<column>.svg` of every quantity below `out`, in the order of `QUANTITIES`; nothing where there are no curves.

    Raises:
        DataError: a curve lacks columns.
    """
    if not curves:
        return []
    for curve in curves:
        if missing := [name for name in ("update", *(quantity.column for quantity in QUANTITIES)) if name not in curve.metrics]:
            raise DataError(f"The training metrics of {curve.condition}, seed {curve.seed}, lack the columns {', '.join(missing)}.")
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for quantity in QUANTITIES:
        path = out / f"{quantity.column}.svg"
        with mpl.rc_context(dict(_STYLE)):
            figure = draw(curves, quantity)
            FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None, "Creator": None})
        paths.append(path)
    return paths


def draw(curves: Sequence[Curve], quantity: Quantity) -> Figure:
    """The figure of one quantity; conditions keep the order, and so the colour, of their first curve."""
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    order = list(dict.fromkeys(curve.condition for curve in curves))
    ordered = sorted(curves, key=lambda curve: order.index(curve.condition))
    for index, (_, runs) in enumerate(groupby(ordered, key=lambda curve: curve.condition)):
        _draw_condition(axes, list(runs), quantity, PALETTE[index % len(PALETTE)], DASHES[index // len(PALETTE) % len(DASHES)])
    axes.set_xlabel("policy update")
    axes.set_ylabel(quantity.axis)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.01)
    axes.grid(axis="y", color=INK, alpha=0.18, linewidth=0.6)
    figure.legend(loc="outside upper left", ncols=min(len(order), 4), handlelength=1.4, columnspacing=1.4)
    return figure


def _draw_condition(axes: Axes, runs: Sequence[Curve], quantity: Quantity, colour: str, dash: str) -> None:
    by_seed = [run.metrics.set_index("update")[quantity.column].sort_index() * quantity.scale for run in runs]
    for values in by_seed:
        axes.plot(values.index, values, color=colour, alpha=0.35, linewidth=0.8)
    mean = pd.concat(by_seed).groupby(level="update").mean()
    smooth = mean.rolling(WINDOW, min_periods=1).mean()
    title = runs[0].title.replace("$", r"\$")  # Else it opens a formula.
    title = f"\u200b{title}" if title.startswith("_") else title  # Else the legend leaves it out.
    axes.plot(smooth.index, smooth, dash, color=colour, linewidth=2.0, label=title)
