"""The real flow's smallest study: minutes of two cores through Ray, OpenRLHF, DeepSpeed and vLLM. It learns nothing."""

SMALLEST = {
    "data": {"source": "generated", "generated": {"count": 240}, "test_size": 8, "sft_fraction": 0.6},
    "policy": {"scratch": {"vocab_size": 900, "hidden_size": 64, "intermediate_size": 128, "layers": 2, "heads": 2}},
    "sft": {"learning_rate": 3e-3, "batch_size": 16, "micro_batch_size": 16, "max_length": 320, "epochs": 2},
    "rl": {
        **{"updates": 3, "prompts_per_update": 2, "group_size": 4, "minibatch_prompts": 2, "micro_batch_size": 8},
        **{"max_turns": 3, "turn_tokens": 24, "response_tokens": 96, "max_length": 512, "observation_tokens": 32},
        **{"learning_rate": 5e-4, "checkpoint_every": 1},
    },
    "evaluation": {"toucan_test": {"samples": 1}},
}
