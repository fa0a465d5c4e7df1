"""The paper's published figures, in per cent, mean ± std of three runs, so that tables can put them beside ours.

Absolute figures of all three benchmarks are known for Qwen2.5-7B only; of the other backbones a few cells, and the gains of
SLCA-GRPO over its matched GRPO run. The paper's "w/o SLCA" is its GRPO row. SFT figures were not published. Conditions are named as
in `configs/arms`.
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
_BASELINES = "baselines of the authors' release, three runs"
_EXECUTION = "execution reward, of the analysis in the authors' release, three runs"


@dataclass(frozen=True, slots=True)
class Published:
    """One published figure in per cent: Toucan Success@0.9, BFCL V3 accuracy or tau2-bench Pass^1; `std` where it was given.

    `derived` says that only a difference was published, to a figure that is known; `source` then has both.
    """

    mean: float
    std: float | None
    source: str
    derived: bool = False


BACKBONES: Mapping[str, str] = MappingProxyType(
    {"qwen2.5-3b": "Qwen2.5-3B-Instruct", "qwen2.5-7b": "Qwen2.5-7B-Instruct", "qwen3-8b": "Qwen3-8B-Base"}
)

_GRPO_7B: dict[Benchmark, Published] = {
    "toucan_test": Published(76.60, 1.27, _MAIN),
    "bfcl_v3": Published(68.41, 0.11, _MAIN),
    "tau2": Published(31.87, 2.97, _MAIN),
}


def _uniform(gain: float, benchmark: Benchmark) -> Published:
    """SLCA-GRPO under uniform HierR weights, of which the release gives the gain over GRPO, in points."""
    grpo = _GRPO_7B[benchmark].mean
    return Published(round(grpo + gain, 2), None, f"GRPO's {grpo:.2f} and the published gain over it of {gain:+.2f} points", True)


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
        ("qwen2.5-7b", "toolpo_judge"): {
            "toucan_test": Published(20.00, 1.36, _BASELINES),
            "bfcl_v3": Published(24.59, 0.87, _BASELINES),
            "tau2": Published(30.44, 2.15, _BASELINES),
        },
        ("qwen2.5-7b", "toolpo_rule"): {
            "toucan_test": Published(77.35, 1.19, _BASELINES),
            "bfcl_v3": Published(68.86, 0.43, _BASELINES),
            "tau2": Published(34.18, 2.42, _BASELINES),
        },
        ("qwen2.5-7b", "rltr"): {"tau2": Published(33.72, None, _BASELINES)},
        ("qwen2.5-7b", "exec_slca"): {
            "toucan_test": Published(76.43, 1.21, _EXECUTION),
            "bfcl_v3": Published(67.61, 0.51, _EXECUTION),
            "tau2": Published(30.18, 1.76, _EXECUTION),
        },
        ("qwen2.5-7b", "exec_grpo"): {
            "toucan_test": Published(73.51, 1.45, _EXECUTION),
            "bfcl_v3": Published(66.28, 0.32, _EXECUTION),
            "tau2": Published(25.54, 2.13, _EXECUTION),
        },
        ("qwen2.5-7b", "slca_uniform"): {"bfcl_v3": _uniform(0.77, "bfcl_v3"), "tau2": _uniform(6.75, "tau2")},
        ("qwen2.5-3b", "slca"): {"tau2": Published(35.63, None, _SCALES)},
        ("qwen2.5-3b", "rltr"): {"tau2": Published(28.50, None, _SCALES)},
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


def published_conditions(backbone: str | None) -> list[str]:
    """The conditions of which some figure of this backbone is known, the method and its ablations first."""
    return [condition for known, condition in _FIGURES if known == backbone]


def published_difference(backbone: str | None, a: str, b: str, benchmark: Benchmark) -> Published | None:
    """Condition a minus condition b in percentage points: of the method over GRPO, which is the paper's "w/o SLCA", the published
    gain; else from the published means, None where one of the two is not known.
    """
    if a == "slca" and b in ("grpo", "wo_slca"):
        return published_gain(backbone, benchmark)
    one, other = published(backbone, a, benchmark), published(backbone, b, benchmark)
    return Published(round(one.mean - other.mean, 2), None, "difference of published means") if one and other else None


def published_gain(backbone: str | None, benchmark: Benchmark) -> Published | None:
    """The paper's gain of SLCA-GRPO over its matched GRPO run, in percentage points; known for every backbone of `BACKBONES`."""
    gain = _GAINS.get(backbone, {}).get(benchmark) if backbone else None
    return None if gain is None else Published(gain, None, _SCALES)
