"""MLflow's store below a root: made whole or not at all, and its artifacts where the root lies now.

MLflow writes the absolute place of its artifacts beside every experiment and run. A root that was moved or copied would go on
reading and writing where it was, so the places are put right whenever the store is opened.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from filelock import FileLock
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking._tracking_service import utils

from slca_core.errors import DataError
from tasks.orchestration.progress import say

_ARTIFACTS = "mlartifacts"
# The columns that hold places, by table.
_PLACES = (
    *(("experiments", "artifact_location"), ("runs", "artifact_uri"), ("logged_models", "artifact_location")),
    *(("model_versions", "storage_location"), ("trace_tags", "value")),
)


def store_path(root: Path) -> Path:
    return root / "mlflow.db"


def store_uri(root: Path) -> str:
    return f"sqlite:///{store_path(root)}"


def store_lock(root: Path) -> FileLock:
    """Of all that is looked up in the store and then written, by whatever thread or process."""
    return FileLock(root / "mlflow.lock")


def artifacts_of(root: Path, experiment: str) -> str:
    """The place of an experiment's artifacts."""
    return f"{_artifacts(root)}/{experiment}"


def open_store(root: Path) -> None:
    """Makes the store if there is none, and puts its places right; DataError if it is no store. To be called under its lock."""
    path = store_path(root)
    if path.is_file() and not path.stat().st_size:
        say(f"MLflow's store {path} was empty; it is made anew, and finished steps are logged to it again.")
        path.unlink()
    if not path.exists():
        _make(path)
    # MLflow remembers, by the id of a run alone, where its artifacts lie; a run of the same id is in every copy of a root.
    utils._artifact_repos_cache.clear()
    try:
        _settle(path)
    except sqlite3.Error as error:
        raise DataError(
            f"MLflow's store was expected at {path}, it cannot be used: {error}. Put it back from a copy, or delete it: the next "
            "run makes it anew and logs every finished step again."
        ) from None


def _artifacts(root: Path) -> str:
    return (root / _ARTIFACTS).as_uri()


def _make(path: Path) -> None:
    """A migration that is killed half way would leave a store that none can mend."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    SqlAlchemyStore(f"sqlite:///{unfinished}", _artifacts(path.parent)).engine.dispose()
    unfinished.replace(path)


def _settle(path: Path) -> None:
    """Has every place below another root's artifacts lie below this one's; places elsewhere, a bucket say, stay."""
    here = _artifacts(path.parent)
    with closing(sqlite3.connect(path, timeout=60)) as store, store:
        locations = [place for (place,) in store.execute("SELECT artifact_location FROM experiments") if place]
        roots = {place.rpartition(f"/{_ARTIFACTS}/")[0] for place in locations if place.startswith(("file:", "/"))}
        for old in {f"{root}/{_ARTIFACTS}" for root in roots if root} - {here}:
            say(f"MLflow's artifacts lie in {path.parent / _ARTIFACTS} now; its store named {old}.")
            for table, column in _PLACES:
                moved = f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?"
                store.execute(moved, (here, len(old) + 1, len(old) + 1, f"{old}/"))
