"""Stock PPOTrainer with three pieces of ours: matched sampling, routed advantages, and the ledger an update leaves behind."""

from __future__ import annotations

from openrlhf.trainer import ppo_trainer

from slca_core.failures import refuse_failures
from slca_core.trainer import ledger
from slca_core.trainer.experience import RoutedExperienceMaker
from slca_core.trainer.sampling import MatchedSamplesGenerator
from slca_core.trainer.spec import load_spec


def plain(actor_class):
    """The class behind one decorated with @ray.remote, so that it can be subclassed."""
    return actor_class.__ray_metadata__.modified_class.__ray_actor_class__


class RoutedPPOTrainer(plain(ppo_trainer.PPOTrainer)):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.spec = load_spec()
        stock = self.experience_maker
        self.experience_maker = RoutedExperienceMaker(
            stock.actor_model_group,
            stock.critic_model_group,
            stock.reward_model_group,
            stock.initial_model_group,
            stock.kl_ctl,
            stock.strategy,
            stock.tokenizer,
        )
        self.experience_maker.spec = self.spec
        self.prompts_dataloader = self._in_file_order(self.prompts_dataloader.dataset)
        self.samples_generator = MatchedSamplesGenerator(
            self.strategy, self.prompts_dataloader, self.eval_dataloader, self.tokenizer, self.vllm_engines
        )

    def _in_file_order(self, prompts):
        """Stock shuffles by an unseeded generator; the prompt file is in the run's order already, the same for matched arms."""
        return self.strategy.setup_dataloader(
            prompts, 1, True, False, prompts.collate_fn, num_workers=self.args.data.dataloader_num_workers
        )

    def init_checkpoint_states(self):
        states = super().init_checkpoint_states()
        self.samples_generator.update = states["global_step"]
        ledger.cut_back(self.spec.metrics, states["global_step"])
        ledger.cut_back_spool(self.spec.spool, states["global_step"])
        return states

    def train_step(self, rollout_samples, global_step):
        update = global_step + 1
        self.records = ledger.collect_spool(self.spec.spool, update, expected=len(rollout_samples))
        services = self.spec.services
        refuse_failures(self.records, services.failure_limit, f"Update {update}", unread_limit=services.unread_limit)
        return super().train_step(rollout_samples, global_step)

    def save_logs_and_checkpoints(self, global_step, logs_dict=None, client_states=None):
        routed = self.experience_maker.routed
        ledger.write_rollouts(self.spec.rollouts, global_step, self.records, routed)
        line = ledger.summarise(global_step, self.records, routed, logs_dict or {})
        line["zero_spread"] = float((~self.experience_maker.teaching_B).float().mean())
        line["incomplete_groups"] = float((~self.experience_maker.complete_B).float().mean())
        ledger.append_line(self.spec.metrics, line)
        super().save_logs_and_checkpoints(global_step, logs_dict, client_states)
        ledger.clear_spool(self.spec.spool, global_step)
