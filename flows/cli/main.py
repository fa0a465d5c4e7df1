"""The `slca` command: run a study, read its report, look at MLflow, check the machine, replay rollouts."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli import core, data
from flows.cli.interruption import ending_at_signals
from slca_core.config import Study, load_study
from slca_core.errors import ConfigError, SlcaError
from slca_core.processes.disk import in_a_sentence
from slca_core.terminal import headed, terminal
from tasks.orchestration.workspace import quiet_environment

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, help=__doc__)
app.command()(core.replay)
app.add_typer(core.conformance, name="conformance")
app.add_typer(data.app, name="data")
console = terminal()
errors = terminal(stderr=True)

StudyFile = Annotated[Path, typer.Argument(help="a study file, e.g. configs/studies/smoke.yaml")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override a setting, e.g. --set rl.updates=10")
]
Format = Literal["markdown", "json", "html", "latex"]


def _load(path: Path, overrides: list[str] | None, *, writing: bool = False) -> Study:
    study = load_study(path, tuple(overrides or ()))
    _settle(study.root, writing=writing)
    return study


def _with_seeds(overrides: list[str] | None, seeds: str) -> list[str]:
    return [*(overrides or ()), *([f"seeds=[{seeds}]"] if seeds else [])]


def _settle(root: Path, *, writing: bool = False) -> None:
    """Everything that is imported from here on keeps its state below `root`; Prefect wants the folder to be there."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if writing:
            with tempfile.TemporaryFile(dir=root):
                pass
    except OSError as error:
        raise ConfigError(f"The state folder {root} (root) was expected to be one that can be written: {error}.") from None
    os.environ.update(quiet_environment(root))


@app.command()
def run(study_file: StudyFile, overrides: Overrides = None, seeds: Annotated[str, typer.Option(help="e.g. 1,2,3")] = "") -> None:
    """Reproduce a study: what has a record is not run again."""
    study = _load(study_file, _with_seeds(overrides, seeds), writing=True)
    from tasks.orchestration.server import private_server

    # Both take seconds, one of them another process's.
    importing = threading.Thread(target=importlib.import_module, args=("flows.reproduce",), daemon=True)
    importing.start()
    with private_server(study.root):
        importing.join()
        from flows.cli import report
        from flows.reproduce import reproduce

        paths = reproduce(study)
    report.show(json.loads(paths.json.read_text()))
    console.print(f"report  {paths.html}", soft_wrap=True)
    console.print(f"runs    make ui STUDY={study_file}   (MLflow, experiment {study.name})", soft_wrap=True)


@app.command()
def plan(
    study_file: StudyFile,
    overrides: Overrides = None,
    seeds: Annotated[str, typer.Option(help="e.g. 1,2,3")] = "",
    explain: Annotated[str | None, typer.Option(metavar="STEP", help="all that bears on one step's identity")] = None,
    commands: Annotated[bool, typer.Option("--commands", help="the stock commands, each value with its source")] = False,
) -> None:
    """What a study would run and why, before it costs anything."""
    study = _load(study_file, _with_seeds(overrides, seeds))
    from flows.cli import plan

    plan.show(study, step=explain, with_commands=commands)


@app.command()
def status(
    study_file: StudyFile,
    overrides: Overrides = None,
    seeds: Annotated[str, typer.Option(help="e.g. 1,2,3")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="until it is done")] = False,
) -> None:
    """Where a study stands: each step done, running (with its update, rewards and time left), stopped or waiting."""
    study = _load(study_file, _with_seeds(overrides, seeds))
    from flows.cli import plan

    plan.show_status(study, watch=watch)


@app.command()
def report(
    study_files: Annotated[list[Path], typer.Argument(help="of several studies, the comparison across backbones")],
    overrides: Overrides = None,
    format: Annotated[Format, typer.Option(help="json is for machines; html prints the file's path")] = "markdown",
) -> None:
    """Print a finished study's report, or the comparison across the backbones of several studies."""
    studies = [_load(path, overrides) for path in study_files]
    if len(studies) > 1:
        sys.stdout.write(_across_backbones(studies, format))
        return
    from tasks.report import report_paths

    path = getattr(report_paths(studies[0]), format)
    if not path.is_file():
        raise ConfigError(f"A report was expected at {path}, there is none yet. Run: slca run {study_files[0]}")
    if format == "html":
        console.print(path, soft_wrap=True)
    else:
        sys.stdout.write(path.read_text())


def _across_backbones(studies: list[Study], format: Format) -> str:
    from slca_core.reporting import cross_scale, latex, markdown
    from tasks.report import read_overviews

    found, notes = read_overviews(studies)
    match format:
        case "markdown":
            return markdown.to_markdown(cross_scale.section(found, notes)) + "\n"
        case "latex":
            return latex.to_document("SLCA-GRPO across backbones", [cross_scale.section(found, notes)])
        case "json":
            return json.dumps(cross_scale.to_json(found, notes), indent=2, ensure_ascii=False) + "\n"
        case "html":
            raise ConfigError("A page is made of one study; of several, the formats are markdown, latex and json.")


@app.command()
def evaluate(
    study_file: StudyFile,
    overrides: Overrides = None,
    checkpoint: Annotated[Path | None, typer.Option(help="a Hugging Face folder; served here for the time")] = None,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="an OpenAI-compatible endpoint that is up already")] = None,
    model: Annotated[str | None, typer.Option(help="the name under which the endpoint serves it")] = None,
    api_key_env: Annotated[str | None, typer.Option(metavar="NAME", help="environment variable with the endpoint's key")] = None,
    seed: Annotated[int, typer.Option(help="of sampled rollouts and trials")] = 1,
) -> None:
    """Ask a study's benchmarks of a checkpoint or an endpoint that no study trained; `slca run` evaluates a study's own."""
    study = _load(study_file, overrides, writing=True)
    from flows.cli import evaluate

    evaluate.show(study, checkpoint=checkpoint, endpoint=endpoint, model=model, key_env=api_key_env, seed=seed)


@app.command()
def rescore(
    study_file: StudyFile,
    overrides: Overrides = None,
    under: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="KEY=VALUE", help="score under another setting, e.g. --with rl.hierr_semantics=release"),
    ] = None,
) -> None:
    """Score a study's stored rollouts again with every endpoint down; exit code 1 if rewards differ though nothing was changed."""
    study = _load(study_file, overrides, writing=True)
    from flows.cli import rescore

    rescore.show(study, load_study(study_file, (*(overrides or ()), *(under or ()))))


@app.command()
def verify(
    study_file: Annotated[Path | None, typer.Argument(help="its steps alone; every step below --root if none is named")] = None,
    overrides: Overrides = None,
    root: Annotated[Path, typer.Option(help="the state folder of your studies, where no study is named")] = Path(".slca"),
    stamp: Annotated[bool, typer.Option("--stamp", help="records of earlier versions get digests of the files there are")] = False,
) -> None:
    """Read every output of finished steps and compare it with its record; exit code 1 if anything differs or is missing."""
    study = _load(study_file, overrides) if study_file else None
    if not study:
        _settle(root)
    from flows.cli import verify
    from tasks.verify import verify_root, verify_study

    verify.show(verify_study(study, stamping=stamp) if study else verify_root(root, stamping=stamp))


@app.command()
def adopt(
    study_file: StudyFile,
    steps: Annotated[list[str] | None, typer.Argument(metavar="[STEP]...", help='as plan has them: "train grpo, seed 1"')] = None,
    overrides: Overrides = None,
    every: Annotated[bool, typer.Option("--all", help="every step that would run again for its code or packages alone")] = False,
    reason: Annotated[str, typer.Option(help="why the records hold today; shown wherever their figures are")] = "",
) -> None:
    """Take finished steps over that other code or packages made: they are not run again, and tables say so."""
    if every == bool(steps):
        raise ConfigError("Steps were expected by their names, or --all. `slca plan` has the names.")
    study = _load(study_file, overrides, writing=True)
    from flows.cli import adopt
    from tasks.adopt import adopt as adopted

    adopt.show(adopted(study, reason, tuple(steps or ())))


@app.command()
def ui(study_file: StudyFile, overrides: Overrides = None, port: Annotated[int, typer.Option(help="loopback port")] = 5000) -> None:
    """Open MLflow on the study's runs."""
    study = _load(study_file, overrides, writing=True)
    from flows.cli import ui

    ui.show(study, study_file, port)


@app.command()
def doctor(root: Annotated[Path, typer.Option(help="the state folder of your studies")] = Path(".slca")) -> None:
    """Check versions, machine, ports and the seams of OpenRLHF this project hangs on."""
    _settle(root)
    from tasks.doctor import examine

    if not examine(root):
        raise SystemExit(2)


def _state_folder() -> Path:
    """The root of the study that this process has settled on, if it has."""
    return Path(os.environ.get("PREFECT_HOME", "."))


def _warn(sentence: str) -> None:
    errors.print(headed("slca:", f" {sentence}", "red"), soft_wrap=True)


def main() -> None:
    """Entry point: what the user can mend is one sentence and exit code 2; so is a signal, with its own code. No tracebacks."""
    try:
        with ending_at_signals(_warn), in_a_sentence(_state_folder):
            app()
    except SlcaError as error:
        _warn(str(error))
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
