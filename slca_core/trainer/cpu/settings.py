"""How DeepSpeed and vLLM are set on two cores; read without importing torch."""

from __future__ import annotations

from pathlib import Path

SHIMS = Path(__file__).with_name("shims")
# DeepSpeed and vLLM read these at import or start; Ray hands them to every worker.
ENVIRONMENT = {
    "DS_ACCELERATOR": "cpu",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    # vLLM's worker then runs in its engine's process; two processes wait for each other by spinning, on the cores they both need.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DO_NOT_TRACK": "1",
}

# vLLM rewinds the generator of a seeded request whose prompt it split over two steps, and a CPU generator cannot be rewound
# ("does not use offset"): no prompt is split.
WHOLE_PREFILL = {"enable_chunked_prefill": False, "max_num_batched_tokens": 32768}
