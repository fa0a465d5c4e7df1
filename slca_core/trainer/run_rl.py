"""Runs stock `openrlhf.cli.train_ppo_ray` for one `TrainSpec`, with our classes at its named seams.

python -m slca_core.trainer.run_rl RUN_FOLDER/spec.json
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from slca_core.config import REPOSITORY, CpuProfile, GpuProfile, LocalLauncher
from slca_core.processes.supervise import LOOPBACK
from slca_core.trainer import loopback
from slca_core.trainer.arguments import rl_arguments
from slca_core.trainer.launch import DECLARED
from slca_core.trainer.spec import SPEC_VARIABLE, TrainSpec, load_spec


def main() -> None:
    path = Path(sys.argv[1]).resolve()
    spec = load_spec(path)
    environment = {SPEC_VARIABLE: str(path), "PYTHONPATH": str(REPOSITORY)}
    cpu = isinstance(spec.machine, CpuProfile)
    if cpu:
        environment |= _cpu_environment(spec)
    if _has_own_ray(spec.machine):
        environment |= loopback.ENVIRONMENT
        # Not in the runtime environment, which Ray writes into argument lists.
        os.environ.update(loopback.ray_environment())
    os.environ.update(environment)
    _start_ray(spec, environment)
    if cpu:
        _install_cpu_actors()
    _install_seams(cpu)
    sys.argv[1:] = rl_arguments(spec)
    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__", alter_sys=True)


def _cpu_environment(spec: TrainSpec) -> dict[str, str]:
    from slca_core.trainer.cpu import device, settings

    device.answer_cuda_calls()
    # Over memory the run itself watches: Ray would judge by what others use, too.
    os.environ.update({"RAY_memory_monitor_refresh_ms": "0"})
    return settings.ENVIRONMENT | {
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(settings.SHIMS)]),
        "VLLM_CPU_KVCACHE_SPACE": str(spec.machine.kv_cache_gib),
    }


def _has_own_ray(machine: CpuProfile | GpuProfile) -> bool:
    """Whether a run starts a Ray of its own on this machine; a job, and a GPU run as it is by default, join one that is up."""
    if not isinstance(machine.launcher, LocalLauncher):
        return False
    return isinstance(machine, CpuProfile) or machine.ray_address in (None, "local")


def _start_ray(spec: TrainSpec, environment: dict[str, str]) -> None:
    """A cluster of its own on loopback, of a CPU run with declared GPUs for placement; else the running cluster."""
    import ray

    runtime_env = {"env_vars": environment}
    cpu = isinstance(spec.machine, CpuProfile)
    if not _has_own_ray(spec.machine):
        ray.init(address="auto" if cpu else spec.machine.ray_address, runtime_env=runtime_env)
        return
    sizes = DECLARED | {"object_store_memory": 300 * 2**20} if cpu else {}
    ray.init(
        # One of its own also beside a cluster someone has started on this machine.
        address="local",
        **sizes,
        include_dashboard=False,
        _system_config={"enable_worker_prestart": False, "prestart_worker_first_driver": False},
        runtime_env=runtime_env,
        _node_ip_address=LOOPBACK,
    )


def _install_cpu_actors() -> None:
    import openrlhf.trainer.ray.launcher as launcher
    import openrlhf.trainer.ray.ppo_actor as ppo_actor
    import openrlhf.utils
    import ray

    from slca_core.trainer.cpu import actors, strategy

    ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(actors.CpuPolicyActor)
    launcher.ReferenceModelActor = ray.remote(num_gpus=1)(actors.CpuReferenceActor)
    openrlhf.utils.get_strategy = strategy.get_strategy


def _install_seams(cpu: bool) -> None:
    import openrlhf.trainer.ppo_trainer as ppo_trainer
    import openrlhf.trainer.ray.ppo_actor as ppo_actor
    import openrlhf.trainer.ray.vllm_engine as vllm_engine
    import ray

    from slca_core.trainer.trainer import RoutedPPOTrainer

    if cpu:
        from slca_core.trainer.cpu.actors import CpuRolloutActor as RolloutActor
    else:
        from slca_core.trainer.gpu import PolicyActor, RolloutActor

        ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(PolicyActor)
    vllm_engine.RolloutRayActor = ray.remote(RolloutActor)
    ppo_trainer.PPOTrainer = ray.remote(RoutedPPOTrainer)


if __name__ == "__main__":
    main()
