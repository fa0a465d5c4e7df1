"""LaTeX that is parsed strictly, and compiled where there is a compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from pylatexenc.latexwalker import LatexEnvironmentNode, LatexWalker

COMPILER = next(filter(None, map(shutil.which, ("pdflatex", "lualatex", "tectonic"))), None)


def count_tables(text: str) -> int:
    """Parses a document and counts its tables, each row of which has as many cells as its tabular has columns."""
    found = environments(text)
    names = [node.environmentname for node in found]
    assert sorted(re.findall(r"\\begin\{(\w+)\}", text)) == sorted(names) == sorted(re.findall(r"\\end\{(\w+)\}", text))
    assert names.count("table") == names.count("tabular")
    for tabular in (node for node in found if node.environmentname == "tabular"):
        columns, *lines = tabular.latex_verbatim().removeprefix(r"\begin{tabular}").splitlines()
        rows = [line for line in lines if line.endswith(r" \\")]
        assert len(rows) == len(lines) - 4, "three rules and the end are no rows"
        for row in rows:
            assert len(re.findall(r"(?<!\\)&", row)) == len(columns.strip("{}")) - 1
    return names.count("table")


def environments(text: str) -> list[LatexEnvironmentNode]:
    """All environments of a text, however deep."""
    nodes, _, _ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
    found = []
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, LatexEnvironmentNode):
            found.append(node)
        nodes += [child for child in getattr(node, "nodelist", None) or [] if child]
        nodes += [argument for argument in getattr(getattr(node, "nodeargd", None), "argnlist", None) or [] if argument]
    return found


def compile_latex(text: str, folder: Path) -> Path:
    """The PDF of a document."""
    assert COMPILER
    (folder / "tables.tex").write_text(text, encoding="utf-8")
    options = [] if Path(COMPILER).name == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    made = subprocess.run(
        [COMPILER, *options, "tables.tex"], cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    assert made.returncode == 0, made.stdout[-3000:]
    return folder / "tables.pdf"
