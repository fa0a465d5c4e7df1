"""`make bench`: how fast the core is, beside its peers, in one run on this machine. Prints tables and writes bench.json."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import datetime
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from tests.bench import bench_advantages, bench_hierr, bench_schemas, bench_services
from tests.bench.measure import Row

OUT = Path("bench.json")
console = Console()


def main() -> None:
    rows: list[Row] = []
    for benchmark in (bench_schemas, bench_hierr, bench_advantages, bench_services):
        rows += benchmark.run()
    machine = _machine()
    OUT.write_text(json.dumps({"machine": machine, "rows": [row.to_json() for row in rows]}, indent=2) + "\n")
    for workload in dict.fromkeys((row.workload, row.threads) for row in rows):
        _show(*workload, [row for row in rows if (row.workload, row.threads) == workload])
    console.print(f"{machine['processor']}, {machine['cores']} cores, torch {machine['torch']}; written to {OUT}", highlight=False)


def _show(workload: str, threads: int, rows: list[Row]) -> None:
    table = Table(f"{workload}, {threads} thread(s)", "median", "x ours", "largest difference", "note", box=box.SIMPLE_HEAD)
    for row in rows:
        difference = "" if row.largest_difference is None else f"{row.largest_difference:.1e}"
        table.add_row(row.name, _time(row.seconds), f"{row.ratio:.2f}", difference, row.note)
    console.print(table)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _machine() -> dict[str, str | int]:
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.processor())
    return {
        "processor": model,
        "cores": os.cpu_count() or 0,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


if __name__ == "__main__":
    main()
