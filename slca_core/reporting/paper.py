"""The paper's published figures, in per cent, mean ± std of three runs, so that tables can put them beside ours.

Absolute figures of all three benchmarks are known for Qwen2.5-7B only; of the other backbones a few cells, and the gains of
SLCA-GRPO over its matched GRPO run. The paper's "w/o SLCA" is its GRPO row. SFT figures were not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Benchmark = Literal["toucan_test", "bfcl_v3", "tau2"]

_MAIN = "main comparison, three runs"
_ABLATION = "ablation, three runs"
_SCALES = "comparison across backbones"


@dataclass(frozen=True, slots=True)
class Published:
    """One published figure in per cent: Toucan Success@0.9, BFCL V3 accuracy or tau2-bench Pass^1; `std` where it was given."""

    mean: float
    std: float | None
    source: str


BACKBONES: Mapping[str, str] = MappingProxyType(
    {"qwen2.5-3b": "Qwen2.5-3B-Instruct", "qwen2.5-7b": "Qwen2.5-7B-Instruct", "qwen3-8b": "Qwen3-8B-Base"}
)

_GRPO_7B: dict[Benchmark, Published] = {
    "toucan_test": Published(76.60, 1.27, _MAIN),
    "bfcl_v3": Published(68.41, 0.11, _MAIN),
    "tau2": Published(31.87, 2.97, _MAIN),
}

_FIGURES: Mapping[tuple[str, str], Mapping[Benchmark, Published]] = MappingProxyType(
    {
        ("qwen2.5-7b", "grpo"): _GRPO_7B,
        ("qwen2.5-7b", "wo_slca"): _GRPO_7B,
        ("qwen2.5-7b", "slca"): {
            "toucan_test": Published(79.13, 1.05, _MAIN),
            "bfcl_v3": Published(69.77, 0.47, _MAIN),
            "tau2": Published(41.02, 1.01, _MAIN),
        },
        ("qwen2.5-7b", "wo_sgls"): {
            "toucan_test": Published(78.02, 1.12, _ABLATION),
            "bfcl_v3": Published(68.75, 0.48, _ABLATION),
            "tau2": Published(36.19, 1.95, _ABLATION),
        },
        ("qwen2.5-7b", "wo_hierr"): {
            "toucan_test": Published(73.44, 1.21, _ABLATION),
            "bfcl_v3": Published(69.07, 0.46, _ABLATION),
            "tau2": Published(34.50, 1.44, _ABLATION),
        },
        ("qwen2.5-3b", "slca"): {"tau2": Published(35.63, None, _SCALES)},
        ("qwen3-8b", "grpo"): {"bfcl_v3": Published(66.96, None, _SCALES)},
        ("qwen3-8b", "wo_slca"): {"bfcl_v3": Published(66.96, None, _SCALES)},
        ("qwen3-8b", "slca"): {"bfcl_v3": Published(70.31, None, _SCALES)},
    }
)

# SLCA-GRPO minus matched GRPO, percentage points.
_GAINS: Mapping[str, Mapping[Benchmark, float]] = MappingProxyType(
    {
        "qwen2.5-3b": {"toucan_test": 2.35, "bfcl_v3": 0.40, "tau2": 1.09},
        "qwen2.5-7b": {"toucan_test": 2.53, "bfcl_v3": 1.36, "tau2": 9.15},
        "qwen3-8b": {"toucan_test": 2.05, "bfcl_v3": 3.35, "tau2": 10.03},
    }
)


def published(backbone: str | None, condition: str, benchmark: Benchmark) -> Published | None:
    """The paper's figure, or None where it is not known ("sft" and "sft_full" have none)."""
    return _FIGURES.get((backbone, condition), {}).get(benchmark) if backbone else None


def published_gain(backbone: str | None, benchmark: Benchmark) -> Published | None:
    """The paper's gain of SLCA-GRPO over its matched GRPO run, in percentage points; known for every backbone of `BACKBONES`."""
    gain = _GAINS.get(backbone, {}).get(benchmark) if backbone else None
    return None if gain is None else Published(gain, None, _SCALES)
