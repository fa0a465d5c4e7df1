"""Whatever users, data and models write is printed as it is: it is no markup, no emoji, no formula, no heading."""

from __future__ import annotations

import ast
import re

import pandas as pd
import pytest
from rich.table import Table
from typer.testing import CliRunner

from flows.cli import plan, report
from flows.cli.main import app
from slca_core.config import REPOSITORY, load_study
from slca_core.reporting import markdown
from slca_core.reporting.dag import Node, draw_dag
from slca_core.reporting.figures import QUANTITIES, Curve, training_curves
from slca_core.terminal import terminal
from tasks.orchestration import progress
from tasks.planning.plan import make_plan
from tests.support.scripted import write_study

HOSTILE = [
    "a [/x] b",
    "[bold red]x[/]",
    "[/]",
    ":smile: [link=x]",
    "$x_1$ & 100% #1 {y} ^",
    "_x",
    r"\$ $ \frac{",
    "<script>",
    "a|b",
]
SOURCES = sorted(path for folder in ("flows", "tasks", "slca_core") for path in (REPOSITORY / folder).rglob("*.py"))


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    for console in (report.console, plan.console, progress.console):
        monkeypatch.setattr(console, "_width", 200)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_line_and_a_progress_bar_show_a_text_as_it_is(capsys, text):
    progress.say(f"{text}, seed 1: 2 updates", "train")
    with progress.bar(f"train {text}", total=2) as update:
        update(advance=1, note=text)
    said = capsys.readouterr().err
    assert f"train     {text}, seed 1: 2 updates" in said
    assert f"train {text}" in said.splitlines()[-1]
    assert said.splitlines()[-1].rstrip().endswith(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_table_shows_its_head_its_cells_and_its_caption_as_they_are(capsys, text):
    table = Table(f"head {text}", caption=f"below {text}")
    table.add_row(f"cell {text}")
    console = terminal()
    console._width = 200
    console.print(table)
    said = capsys.readouterr().out
    assert all(f"{place} {text}" in said for place in ("head", "cell", "below"))


@pytest.mark.parametrize("text", HOSTILE)
def test_an_arms_title_is_printed_at_the_end_of_a_run_as_it_is(capsys, text):
    column = {"key": "process", "title": "Process", "unit": "percent"}
    shown = {
        **{"columns": [column], "rows": [{"name": "slca", "title": text, "shares_run_of": None}], "overview": OVERVIEW},
        **{"values": {"slca": {"process": 0.5}}, "spread": {"slca": {"process": None}}},
        **{"paper": {"title": "Paper", "values": {"slca": None}}, "caveats": [text], "notes": [], "smallest_effects": []},
    }
    report.show(shown)
    assert sum(text in line for line in capsys.readouterr().out.splitlines()) == 2


OVERVIEW = {
    **{"study": "toy", "backbone": None, "values": {"slca": {}}, "labels": {}, "user": [], "training": {}, "runs": {}, "toy": True}
}


def test_a_plan_and_a_status_show_reasons_with_brackets_as_they_are(tmp_path, capsys):
    path = write_study(tmp_path, policy={"checkpoint": str(tmp_path / "[red]not[/there]")})
    study = load_study(path)
    plan.console.print(plan._table(make_plan(study)))
    plan.show_status(study, watch=False)
    assert "[red]not[/there]" in "".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("argument", ["a [/x] b", "[bold]plan[/]"])
def test_a_wrong_command_is_named_as_it_was_typed(argument):
    found = CliRunner().invoke(app, [argument])
    assert found.exit_code == 2
    assert argument in found.output


def test_arms_that_are_not_matched_are_named_as_they_are(tmp_path):
    arm = {"name": "odd", "title": "a [/x] b", "estimator": "slca", "rl": {"clip": 0.3}}
    path = write_study(tmp_path, arms=["grpo", arm], allow_unmatched=True, description="[/x]")
    found = CliRunner().invoke(app, ["plan", str(path)], env={"COLUMNS": "200"})
    assert found.exit_code == 0, found.output
    assert "arms     not matched  rl.clip: grpo 0.2, odd 0.3" in found.output


@pytest.mark.parametrize("title", ["$x_1$ & 100% #1 {y} ^", "_x", r"\$ $ \frac{", "<script>"])
def test_a_title_is_drawn_as_it_is(tmp_path, title):
    metrics = pd.DataFrame({"update": [1, 2], **{quantity.column: [0.1, 0.2] for quantity in QUANTITIES}})
    path = training_curves([Curve("odd", title, 1, metrics)], tmp_path)[0]
    drawn = path.read_text(encoding="utf-8")
    assert escape_xml(title) in drawn.replace("\u200b", "")
    node = draw_dag([Node(title, (), "to run", title)], tmp_path / "plan.svg")
    assert node.read_text(encoding="utf-8").count(escape_xml(title)) >= 2


def escape_xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("# no heading", r"\# no heading"),
        ("#1 of two", "#1 of two"),
        ("> said", r"\> said"),
        ("- no list", r"\- no list"),
        ("1. no list", r"1\. no list"),
        ("1.5 points", "1.5 points"),
        ("-0.5", "-0.5"),
        ("---", r"\---"),
        ("a - b", "a - b"),
    ],
)
def test_a_sentence_opens_no_block_of_markdown(text, written):
    assert markdown.escaped(text) == written


def test_consoles_that_read_no_markup_are_the_only_ones():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if path.name != "terminal.py":
            assert "Console(" not in text, path
        assert not re.search(r"from_markup|markup=True|\[/(?:bold|red|green|dim)?\]", text), path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "TextColumn":
                assert "{" not in node.args[0].value or [word.arg for word in node.keywords] == ["markup"], path
