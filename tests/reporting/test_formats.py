"""One table in three formats: text that means nothing but itself, links to the runs, footnotes on their cells."""

from __future__ import annotations

import pytest
from jinja2 import Environment, PackageLoader

from slca_core.reporting import latex, markdown
from slca_core.reporting.sections import Entry, Section, as_entry, run_url
from tests.support.frames import HOSTILE, run
from tests.support.latex_checks import count_tables

SYMBOLS = "± – τ ≥ ² → ≤ − · … “q” ’ é Ł 中 π"
URL = "http://127.0.0.1:5000/#/experiments/7/runs/"


@pytest.fixture
def section() -> Section:
    linked = Entry("79.1", "± 1.0 [78.0, 80.2]", (run(1, "one"), run(2, "two")), ("mocker: 50% & stand-in",))
    return Section(
        HOSTILE,
        ["Condition", Entry("Pass^1 of a long heading, %", remarks=("of all tasks",)), "Paper"],
        [[HOSTILE, linked, Entry("79.13", "± 1.05", published=True)], ["[b] *c*", "–", Entry("~69.18", remarks=("derived",))]],
        ["A note_with & signs.", SYMBOLS],
        {"Pass^k": "k of k"},
    )


def in_html(section: Section) -> str:
    loader = PackageLoader("slca_core.reporting", ".")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return str(environment.get_template("section.html.jinja").make_module({"as_entry": as_entry}).table(section))


def test_a_runs_page_is_where_slca_ui_serves_it():
    assert run_url("7", "abc") == URL + "abc"


def test_markdown_means_nothing_but_the_text(section):
    text = markdown.to_markdown(section)
    assert "<" not in text
    title = r"A & B\_% #1 {x} \\input{/etc/passwd} \~ ^ \$y\$ &lt;script>alert(1)&lt;/script> \[z\](javascript:0) \*w\* \|"
    assert f"| {title} | [79.1][one] ± 1.0 \\[78.0, 80.2\\] \\[b\\] ([2][two]) | 79.13 ± 1.05 |" in text.splitlines()
    assert f"[one]: {URL}one\n[two]: {URL}two" in text
    assert markdown.escaped("rl.prompts_per_update = 8") == "rl.prompts_per_update = 8", "no emphasis, no escape"


def test_html_means_nothing_but_the_text(section):
    text = in_html(section)
    assert "<script" not in text
    assert f'<a href="{URL}one" title="seed 1, run one">79.1</a>' in text
    assert f'<a class="seed" href="{URL}two" title="seed 2, run two">2</a>' in text
    assert "<sup>b</sup>" in text
    assert "<small>± 1.0 [78.0, 80.2]</small>" in text
    assert "&lt;script&gt;" in text


def test_latex_means_nothing_but_the_text(section):
    text = latex.to_latex(section)
    assert r"\input" not in text
    title = (
        r"A \& B\_\% \#1 \{x\} \textbackslash{}input\{/etc/passwd\} \textasciitilde{} \textasciicircum{} \$y\$ "
        r"\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{} {[}z{]}(javascript:0) {*}w{*} \textbar{}"
    )
    assert f"\\caption{{{title}}}" in text
    link = URL.replace("#", r"\#")
    beside = rf"\scriptsize ± 1.0 {{[}}78.0, 80.2{{]}} (\href{{{link}two}}{{2}})"
    assert rf"\href{{{link}one}}{{79.1}}\textsuperscript{{b}} {{{beside}}}" in text
    assert r"\textit{79.13} {\scriptsize ± 1.05}" in text
    assert r"-- $\tau$ $\geq$ ²" in text


def test_what_pdflatex_has_no_letter_for_loses_its_accent_or_is_a_question_mark():
    assert latex.escaped("Ř ﬁ 中 \x00") == "R fi ? ?"


def test_a_mark_stands_for_one_sentence_in_reading_order(section):
    assert section.footnotes == {"a": "of all tasks", "b": "mocker: 50% & stand-in", "c": "derived"}
    assert [[section.marks(cell) for cell in row] for row in (section.head, *section.rows)] == [
        [[], ["a"], []],
        [[], ["b"], []],
        [[], [], ["c"]],
    ]


def test_latex_parses(section):
    assert count_tables(latex.to_document(HOSTILE, [section, section])) == 2
