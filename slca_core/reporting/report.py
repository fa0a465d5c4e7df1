"""The report of a study: the same content as Markdown, as one self-contained HTML page and as JSON; its tables as LaTeX too.

The per-item results lie beside it, and every table of results follows from them alone. No date, host or path enters, so that the
same results give the same bytes. Stand-ins are named beside every figure they had a part in.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from slca_core.reporting import figures, latex, markdown, toucan
from slca_core.reporting.comparison import PairedDifference
from slca_core.reporting.differences import difference_to_json
from slca_core.reporting.figures import QUANTITIES, Curve, Quantity, training_curves
from slca_core.reporting.sections import LINKS, Section, as_entry
from slca_core.reporting.tables import MainTable
from slca_core.results import REPORTED

# Of a study whose policy is made from scratch.
RANKING_CAVEAT = "At this size the five arms need not rank as in the paper."

# The counts of a curation manifest, in the order of the funnel (App. B).
FUNNEL: Mapping[str, str] = MappingProxyType(
    {
        "read": "Records read",
        "parsed": "Records parsed",
        "rejected": "Records quarantined as unreadable",
        "repaired": "Tool schemas put into today's words",
        "findings": "Records no rollout can use, or whose gold call its own schema refuses",
        "filtered": "Filtered",
        "dialogues": "Dialogues kept",
        "samples": "Samples",
        "splits": "Samples in splits",
        "planted": "Faults planted in training demonstrations",
    }
)


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """The files of a report; figures lie beside them, below `figures`.

    Attributes:
        latex: the tables, as a document.
        items: the per-item results behind them, with the columns `results.REPORTED`.
    """

    markdown: Path
    html: Path
    json: Path
    latex: Path
    items: Path

    @classmethod
    def below(cls, out: Path) -> ReportPaths:
        """A report's files in its folder."""
        return cls(out / "report.md", out / "report.html", out / "report.json", out / "tables.tex", out / "items.parquet")


@dataclass(frozen=True, slots=True)
class FunnelLine:
    """One line of the curation funnel; parts of a count (a reason, a split) stand below it, deeper."""

    name: str
    count: int
    depth: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage's wall time, as text and as a share of the longest."""

    name: str
    duration: str
    share: float


def write_report(
    out: Path,
    *,
    study_name: str,
    description: str,
    items: pd.DataFrame,
    table: MainTable,
    results: Sequence[Section],
    differences: Sequence[PairedDifference],
    curves: Sequence[Curve],
    stages: Mapping[str, float],
    labels: Sequence[str],
    manifest: Mapping[str, Any],
    notes: Sequence[str],
    mlflow_hint: str,
    warnings: Sequence[str] = (),
    books: Sequence[Section] = (),
    values: Mapping[str, Any] = MappingProxyType({}),
) -> ReportPaths:
    """Writes the report's files and figures/*.svg below `out`.

    Args:
        items: the per-item results of the study, all conditions.
        table: what the JSON and the sentences at the top are told by.
        results: the tables of results, in order; those without rows are left out.
        differences: comparisons to state at the top, such as slca to sft.
        stages: seconds of each stage, in order.
        labels: what stands in for something of the paper's, such as the mocker and the judge.
        manifest: counts of the curation, as `curation.pipeline.Manifest` has them.
        mlflow_hint: how to open the tracked runs.
        warnings: what makes the comparison less than it seems, such as arms that are not matched; they come first.
        books: tables of what it took, after those of results.
        values: what stands behind both, for the JSON.
    """
    out.mkdir(parents=True, exist_ok=True)
    drawn = list(zip(QUANTITIES, training_curves(curves, out / "figures"), strict=False))
    results, books = ([section for section in sections if section.rows] for sections in (results, books))
    content = {
        "study_name": study_name,
        "description": description,
        "caveats": [*warnings, caveat(labels)],
        "results": results,
        "findings": [finding(difference, table) for difference in differences],
        "funnel": funnel(manifest),
        "stages": stage_bars(stages),
        "books": books,
        "labels": list(labels),
        "notes": [*notes, LINKS],
        "mlflow_hint": mlflow_hint,
    }
    paths = ReportPaths.below(out)
    paths.markdown.write_text(_markdown(content, [(quantity, path.relative_to(out)) for quantity, path in drawn]), encoding="utf-8")
    paths.html.write_text(_html(content, [(quantity, _inline(path)) for quantity, path in drawn]), encoding="utf-8")
    paths.latex.write_text(latex.to_document(study_name, [*results, *books]), encoding="utf-8")
    items[list(REPORTED)].to_parquet(paths.items, compression="zstd", index=False)
    content_json = {
        **values,
        **toucan.to_json(table),
        "study": study_name,
        "labels": list(labels),
        "stages": dict(stages),
        "differences": [difference_to_json(difference) for difference in differences],
        "curation": manifest,
        "caveats": content["caveats"],
    }
    paths.json.write_text(
        json.dumps(content_json, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
    return paths


def caveat(labels: Sequence[str]) -> str:
    """What a reader must know before the first figure."""
    if not labels:
        return "No stand-ins were used."
    return f"Made with stand-ins: {'; '.join(labels)}. Their figures are not comparable with the paper's."


def finding(difference: PairedDifference, table: MainTable) -> str:
    """A paired difference as a sentence."""
    column = next((column for column in table.columns if column.metric == difference.metric), None)
    title, unit = (column.title, column.unit) if column else (difference.metric, "score")
    scale, word, digits = (100, " points", 1) if unit == "percent" else (1, "", 3)
    low, high = (f"{scale * bound:+.{digits}f}" for bound in difference.interval)
    z = f"z = {difference.z:.1f}" if math.isfinite(difference.z) else "the same on every item"
    return (
        f"{table.title_of(difference.condition_a)} minus {table.title_of(difference.condition_b)}, {title}, {difference.sampling}: "
        f"{scale * difference.mean:+.{digits}f}{word} (standard error {scale * difference.standard_error:.{digits}f}, {z}, "
        f"95% interval {low} to {high}, {difference.n_items} items)"
    )


def funnel(manifest: Mapping[str, Any]) -> list[FunnelLine]:
    """The manifest's counts, line by line; what is no count (seed, digests) is left out."""
    lines: list[FunnelLine] = []
    for key, name in FUNNEL.items():
        if key in manifest:
            lines += _counts(name, manifest[key], depth=0)
    return lines


def _counts(name: str, value: int | Mapping[str, Any], depth: int) -> list[FunnelLine]:
    if not isinstance(value, Mapping):
        return [FunnelLine(name, value, depth)]
    parts = [line for key, part in value.items() for line in _counts(key.replace("_", " "), part, depth + 1)]
    return [FunnelLine(name, sum(line.count for line in parts if line.depth == depth + 1), depth), *parts]


def stage_bars(stages: Mapping[str, float]) -> list[Stage]:
    """The stages in order, each with its share of the longest."""
    longest = max(stages.values(), default=0.0) or 1.0
    return [Stage(name, duration(seconds), seconds / longest) for name, seconds in stages.items()]


def duration(seconds: float) -> str:
    """Seconds as a person says them: 42 s, 3 min 5 s, 2 h 10 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_rest = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_rest} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s" if seconds < 10 else f"{rest} s"


def _inline(path: Path) -> Markup:
    """The SVG for the page: no prolog, ids of its own, and colours that follow the page's light or dark."""
    svg = path.read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{path.stem}-", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return Markup(svg.replace(figures.INK, "currentColor").replace(figures.PAPER, "none"))


def _html(content: Mapping[str, Any], drawn: Sequence[tuple[Quantity, Markup]]) -> str:
    environment = Environment(
        loader=PackageLoader("slca_core.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("report.html.jinja").render(**content, figures=drawn, window=figures.WINDOW, as_entry=as_entry)


def _markdown(content: Mapping[str, Any], drawn: Sequence[tuple[Quantity, Path]]) -> str:
    counts = [["· " * line.depth + line.name, f"{line.count:,}"] for line in content["funnel"]]
    times = [[stage.name, stage.duration] for stage in content["stages"]]
    parts = [
        f"# {content['study_name']}",
        markdown.escaped(content["description"]),
        "\n".join(f"> {markdown.escaped(sentence)}\n>" for sentence in content["caveats"]).removesuffix("\n>"),
        markdown.bullets(content["findings"]),
        *(markdown.to_markdown(section) for section in content["results"]),
        "## Training",
        "\n\n".join(f"![{quantity.title}]({path.as_posix()})\n\n{quantity.title}. {quantity.caption}" for quantity, path in drawn)
        or "No training curves.",
        markdown.to_markdown(Section("Curation", ["Stage", "Count"], counts)),
        markdown.to_markdown(Section("Stage times", ["Stage", "Wall time"], times)),
        *(markdown.to_markdown(section) for section in content["books"]),
        "## Notes",
        markdown.bullets([*content["notes"], content["mlflow_hint"]]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
