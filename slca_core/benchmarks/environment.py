"""Environments beside our own, of benchmarks and peers: built once from a lock, beside the old one, put in its place when whole.

python3.11 -m slca_core.benchmarks.environment .venv-bfcl requirements/bench-bfcl.txt

A stamp in it says of which lock and Python it is made, by digest: a checkout changes the times of files and nothing else. This
module is of the standard library alone, since make runs it before there is any environment.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slca_core.errors import ConfigError, SlcaError

STAMP = ".complete"


def is_built(environment: Path, lock: Path) -> bool:
    """Whether it is whole, of this lock and for this Python; a link to one that is will do."""
    try:
        return (environment / STAMP).read_text() == _stamp(lock) and interpreter(environment).is_file()
    except OSError:
        return False


def interpreter(environment: Path) -> Path:
    return environment / "bin" / "python"


def require(
    environment: Path,
    lock: Path,
    *,
    install: Callable[[Path, Path], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """The environment's interpreter, once it is built from the lock.

    Args:
        install: fills a folder from the lock; venv and pip do unless said.
        say: hears that it is built, which takes minutes.

    Raises:
        ConfigError: it would have to be changed through a link, or what it is made of does not install.
    """
    if is_built(environment, lock):
        return interpreter(environment)
    if environment.is_symlink():
        raise ConfigError(
            f"{environment} was expected to be built from {lock.name} for this Python; it is a link to {environment.readlink()}, "
            "which is not, and an environment is never changed through a link: others may use it. Remove the link to have one here."
        )
    with _alone(environment):
        if not is_built(environment, lock):
            beside = environment.with_name(f"{environment.name}.building")
            if not is_built(beside, lock):
                say(f"building {environment.name} from {lock.name}, once")
                _build(beside, environment, lock, install or install_by_pip)
            _put_in_place(beside, environment)
    return interpreter(environment)


def install_by_pip(folder: Path, lock: Path) -> None:
    """A virtual environment with what the lock names, without a resolver; ConfigError with pip's last words."""
    pip = [str(interpreter(folder)), "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input"]
    # Compiled where it is built, a traceback would name files that lie elsewhere by then.
    for argv in ([sys.executable, "-m", "venv", str(folder)], [*pip, "install", "--no-deps", "--no-compile", "-r", str(lock)]):
        made = subprocess.run(argv, capture_output=True, text=True, check=False)
        if made.returncode:
            said = "\n".join((made.stdout + made.stderr).splitlines()[-10:])
            raise ConfigError(
                f"What {lock} names was expected to install; it ended with code {made.returncode}. Is the package index reachable? "
                f"Behind a mirror, set PIP_INDEX_URL.\n{said}"
            )


def _stamp(lock: Path) -> str:
    made_of = {"lock": hashlib.sha256(lock.read_bytes()).hexdigest(), "python": sys.implementation.cache_tag}
    return json.dumps(made_of, indent=2) + "\n"


def _build(beside: Path, environment: Path, lock: Path, install: Callable[[Path, Path], None]) -> None:
    """The whole environment in the folder `beside`, as it will be at its place."""
    _remove(beside)
    install(beside, lock)
    # Scripts and settings of a virtual environment name its folder.
    for file in (beside / "pyvenv.cfg", *(beside / "bin").glob("*")):
        if file.is_file() and not file.is_symlink():
            file.write_bytes(file.read_bytes().replace(os.fsencode(beside), os.fsencode(environment)))
    (beside / STAMP).write_text(_stamp(lock))


def _put_in_place(beside: Path, environment: Path) -> None:
    """Killed at whatever moment, it leaves the old environment, the new one, or none and the new one beside, for the next call."""
    replaced = environment.with_name(f"{environment.name}.replaced")
    _remove(replaced)
    if environment.exists():
        environment.rename(replaced)
    beside.rename(environment)
    _remove(replaced)


def _remove(folder: Path) -> None:
    """The folder itself: of a link, the link."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


@contextmanager
def _alone(environment: Path) -> Iterator[None]:
    """One process builds at a time; the others wait and find it built."""
    with environment.with_name(f"{environment.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds a virtual environment from a lock, if it is not there yet.")
    parser.add_argument("environment", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--above", type=Path, metavar="FOLDER", help="packages that it sees beside its own")
    given = parser.parse_args()

    def install(folder: Path, lock: Path) -> None:
        install_by_pip(folder, lock)
        if given.above:
            (site_packages,) = folder.glob("lib/python*/site-packages")
            (site_packages / "above.pth").write_text(f"{given.above.absolute()}\n")

    try:
        require(given.environment.absolute(), given.lock.absolute(), install=install, say=lambda text: print(text, flush=True))
    except SlcaError as error:
        print(f"environment: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
