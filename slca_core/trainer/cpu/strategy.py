"""DeepSpeed's strategy with torch's own AdamW (the fused and CPU kernels need a compiler and minutes) in float32."""

from __future__ import annotations

from openrlhf.utils.deepspeed import DeepspeedStrategy


class CpuStrategy(DeepspeedStrategy):
    def get_ds_train_config(self, optim_dict=None, *, max_norm=None):
        if optim_dict and optim_dict["type"] == "AdamW":
            optim_dict["params"]["torch_adam"] = True
        return super().get_ds_train_config(optim_dict, max_norm=max_norm)


def get_strategy(args) -> CpuStrategy:
    """Stands for openrlhf.utils.get_strategy, whose defaults it keeps; the parser has no fp32, so it is set once parsed."""
    args.ds.param_dtype = "fp32"
    return CpuStrategy(
        seed=args.train.seed,
        full_determinism=args.train.full_determinism_enable,
        max_norm=getattr(args, "max_norm", 1.0),
        micro_train_batch_size=args.train.micro_batch_size,
        train_batch_size=args.train.batch_size,
        zero_stage=args.ds.zero_stage,
        args=args,
    )
