"""The OpenRLHF adapter, and the only place that imports ray, vllm or openrlhf."""
