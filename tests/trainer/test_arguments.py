"""Our arguments as stock OpenRLHF reads them: its own parser and validation, run up to the point where training would begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from slca_core.config import GpuProfile, SftConfig
from slca_core.trainer.arguments import as_argv, rl_arguments, sft_arguments

RL, SFT = "openrlhf.cli.train_ppo_ray", "openrlhf.cli.train_sft"
SMALL = {"prompts_per_update": 8, "group_size": 8, "minibatch_prompts": 4, "micro_batch_size": 16, "updates": 3}


def sft(settings: SftConfig | None = None, **changes) -> list[str]:
    given = {
        "model": Path("m"),
        "dataset": Path("d.jsonl"),
        "out": Path("runs/model"),
        "epochs": 2,
        "cpu": True,
        **changes,
    }
    return sft_arguments(settings or SftConfig(), **given)


def test_the_defaults_of_table_6_reach_the_trainer(make_spec, parse):
    args = parse(RL, rl_arguments(make_spec()))
    assert (args.actor.eps_clip_low_high, args.actor.dual_clip) == ((0.2, 0.2), 3.0)
    assert (args.algo.kl.use_loss, args.algo.kl.estimator, args.algo.kl.init_coef) == (True, "k3", 0.001)
    assert (args.actor.adam.lr, args.actor.lr_scheduler, tuple(args.actor.adam.betas)) == (1e-6, "constant", (0.9, 0.999))
    assert (args.rollout.batch_size, args.rollout.n_samples_per_prompt, args.train.batch_size) == (128, 16, 32 * 16)
    assert (args.rollout.temperature, args.train.max_epochs, args.actor.loss_agg_mode) == (1.0, 1, "token-mean")


def test_the_prompts_are_exactly_those_of_the_updates(make_spec, parse):
    args = parse(RL, rl_arguments(make_spec(**SMALL)))
    assert args.data.max_samples == args.rollout.batch_size * 3
    assert args.train.num_episodes == 1


def test_prompts_reach_the_policy_as_they_were_rendered(make_spec, parse):
    args = parse(RL, rl_arguments(make_spec()))
    assert args.data.input_template == "{}"
    assert not args.data.apply_chat_template


def test_a_run_goes_on_from_its_last_checkpoint(make_spec, parse):
    spec = make_spec(checkpoint_every=7)
    args = parse(RL, rl_arguments(spec))
    assert (args.ckpt.load_enable, args.ckpt.save_steps, args.ckpt.path) == (True, 7, str(spec.checkpoints))


def test_rewards_come_from_the_agent_and_no_critic_is_made(make_spec, parse):
    args = parse(RL, rl_arguments(make_spec()))
    assert args.reward.remote_url == ["agent"]
    assert args.critic.model_name_or_path is None
    assert Path(args.train.agent_func_path).is_file()


def test_the_cpu_profile_needs_neither_nccl_nor_flash_attention(make_spec, parse):
    args = parse(RL, rl_arguments(make_spec()))
    assert (args.vllm.sync_backend, args.ds.attn_implementation, args.vllm.enforce_eager) == ("gloo", "sdpa", True)
    assert not args.train.colocate_all


def test_the_gpu_profile_shares_the_cards_between_trainer_and_engines(make_spec, parse):
    args = parse(RL, rl_arguments(make_spec(machine=GpuProfile())))
    assert args.train.colocate_all
    assert args.vllm.enable_sleep
    assert args.actor.num_nodes * args.actor.num_gpus_per_node == args.vllm.num_engines * args.vllm.tensor_parallel_size
    assert args.vllm.sync_backend == "nccl"


def test_the_gpu_profile_may_keep_trainer_and_engines_apart(make_spec, parse):
    args = parse(RL, rl_arguments(make_spec(machine=GpuProfile(colocate=False))))
    assert (args.train.colocate_all, args.vllm.enable_sleep, args.ds.enable_sleep) == (False, False, False)


def test_sft_puts_the_loss_on_assistant_turns_of_rendered_messages(parse):
    args = parse(SFT, sft())
    assert (args.data.multiturn, args.data.apply_chat_template, args.data.input_key) == (True, True, "messages")
    assert not args.model.pretrain_mode_enable


@pytest.mark.parametrize("cpu", [True, False])
def test_sft_has_the_optimiser_of_table_6_on_every_machine(parse, cpu):
    args = parse(SFT, sft(cpu=cpu))
    assert (args.adam.lr, tuple(args.adam.betas), args.lr_scheduler) == (5e-6, (0.9, 0.999), "cosine_with_min_lr")
    assert (args.lr_warmup_ratio, args.min_lr_ratio, args.train.max_epochs) == (0.1, 0.0, 2)


def test_a_flag_the_parser_does_not_know_stops_the_run(parse, make_spec):
    with pytest.raises(SystemExit):
        parse(RL, [*rl_arguments(make_spec()), "--actor.no_such_flag"])


def test_true_flags_stand_alone_false_ones_are_left_out_and_tuples_spread():
    assert as_argv({"a": True, "b": False, "c": (1, 2.5), "d": 0}) == ["--a", "--c", "1", "2.5", "--d", "0"]
