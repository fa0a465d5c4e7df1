"""The agent loop, one for training and evaluation: the policy writes a turn, its calls are answered, until a turn calls nothing.

`play` makes a trajectory; `score` gives it its rewards, once, after the loop, and returns the record that metrics, replay and
tables read; `roll` is both. What fails on the way is the rollout's own error, under the boundary where it failed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from slca_core.config import Arm, ProcessReward, RlConfig
from slca_core.conversation import chat
from slca_core.conversation.calls import ParsedTurn, parse_turn
from slca_core.conversation.dialogue import Sample
from slca_core.conversation.schemas import ToolSet
from slca_core.conversation.tokens import Tokenizer, decode, encode, shorten
from slca_core.errors import AnswerCut, PromptTooLong, ServiceError
from slca_core.failures import Boundary
from slca_core.judges.completeness import Vote, completeness_prompt, parse_vote
from slca_core.judges.outcome import Verdict, decide
from slca_core.judges.summary import Rating, is_short_circuited, judge_prompt, parse_rating, rating_score
from slca_core.rewards.hierr import WEIGHTINGS, score_prediction
from slca_core.rewards.matching import Matching
from slca_core.rewards.omission import Guard, apply_omission, apply_omission_to_outcome, is_omitted
from slca_core.rewards.outcome import action_reward, reference_outcome
from slca_core.rewards.prediction import REFUSALS, RULES, Prediction, Semantics, read_prediction
from slca_core.rewards.process import Evidence, process_reward
from slca_core.services.client import Lines
from slca_core.simulator.sgls import MALFORMED_CALL, Ask, Observation, simulate


@dataclass(frozen=True, slots=True)
class Limits:
    """Lengths in tokens. `response_tokens` counts everything after the prompt, observations included."""

    max_turns: int
    turn_tokens: int
    response_tokens: int
    max_length: int
    observation_tokens: int
    malformed_call: Literal["continue", "end"] = "continue"

    @classmethod
    def of(cls, rl: RlConfig) -> Limits:
        """The limits a study sets, for training and evaluation alike."""
        return cls(**{name: getattr(rl, name) for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a trajectory becomes rewards; `votes` of the completeness checker, and a verdict, are asked for where an arm has them."""

    process_reward: ProcessReward
    hierr_semantics: Semantics
    hierr_matching: Matching
    hierr_weights: str
    omission_penalty: float
    omission_guard: Guard
    judge_short_circuits: bool
    judges_outcome: bool = False
    votes: int = 0

    @classmethod
    def of(cls, rl: RlConfig, arm: Arm | None = None, votes: int = 0) -> Scoring:
        """A study's scoring under an arm's rewards; without one that of evaluation, the same for every checkpoint."""
        shared = {name: getattr(rl, name) for name in cls.__slots__ if hasattr(rl, name)}
        if arm is None:
            return cls(process_reward="hierr", hierr_weights="default", **shared)
        asked = votes if arm.asks_checker else 0
        # What nobody takes is not asked for, and then there is nothing to make it of.
        unasked = process_reward(arm.process_reward).asks_checker and not arm.asks_checker
        return cls(
            process_reward="none" if unasked else arm.process_reward,
            hierr_weights=arm.hierr_weights,
            judges_outcome=arm.asks_for_outcome,
            votes=asked,
            **shared,
        )


@dataclass(frozen=True, slots=True)
class Generated:
    """One turn from the policy: its token ids (the end token included if it wrote one) and whether the budget cut it.

    `logprobs`, where the engine gives them, has one value a token.
    """

    token_ids: list[int]
    truncated: bool
    logprobs: list[float] | None = None


_Said = TypeVar("_Said")
Generate = Callable[[list[int], int, int], Awaitable[Generated]]


@dataclass(slots=True)
class Trajectory:
    """Token ids of prompt, actions and observations in order; `action_ranges` are the policy's, half-open.

    `observations` are texts as the policy saw them, `logprobs` are 0 on every token it did not write. `tools` are those
    it had; None if it was not played here.
    """

    token_ids: list[int]
    prompt_tokens: int
    action_ranges: list[tuple[int, int]] = field(default_factory=list)
    logprobs: list[float] | None = None
    turns: list[str] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    truncated: bool = False
    final_response: str = ""
    error: str | None = None
    tools: ToolSet | None = None
    _parsed: list[ParsedTurn] = field(default_factory=list, repr=False)

    @property
    def parsed(self) -> list[ParsedTurn]:
        """The turns as they were read; each is read once."""
        self._parsed += [parse_turn(turn) for turn in self.turns[len(self._parsed) :]]
        return self._parsed


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """One scored rollout. Rewards are those that enter the estimator: the omission override is applied.

    Attributes:
        rollout_id: the group's identity and the sample's number in it, parted by the last "-".
        refusals: opened blocks that are not valid, by reason (`rewards.prediction.REFUSALS`).
        cut_calling: a limit or a failure ended the rollout in or right after a call, so its last run of tokens is no summary.
        error: boundary, kind and message of what ended the rollout, parted by ": "; its rewards then mean nothing.
        votes: the completeness checker's; None for an answer that did not come or could not be read.
        verdict: the outcome judge's.
        unread: ratings, verdicts and sets of votes that could not be read, and so scored 0.
        overflowed: of those that could not be had, since the prompt does not fit the frozen model's context; they score 0 too.
        broken_responses: the mocker's answers without a whole response block.
        services: role -> what this rollout asked of it, as `Usage.to_json`.
    """

    rollout_id: str
    sample_id: str
    subset: str
    update: int
    sample_index: int
    r_tool: float
    r_sum: float
    outcome: float
    action: float
    omitted: bool
    fmt: float
    name: float
    key: float
    val: float
    par: float
    process: float
    exact: float
    n_open: int
    n_close: int
    n_valid: int
    refusals: dict[str, int]
    rating: Rating | None
    votes: list[Vote | None]
    verdict: Verdict | None
    unread: int
    overflowed: int
    summary_score: float
    tool_turns: int
    refused_calls: int
    broken_responses: int
    truncated: bool
    cut_calling: bool
    error: str | None
    question: str
    turns: list[str]
    observations: list[str]
    final_response: str
    token_ids: list[int]
    action_ranges: list[tuple[int, int]]
    prompt_tokens: int
    services: dict[str, dict[str, float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def rollout_seed(study_seed: int, update: int, sample_id: str, sample_index: int, turn: int) -> int:
    """The sampling seed of one turn: its identity and nothing else, so that matched arms draw the same noise."""
    identity = f"{study_seed}/{update}/{sample_id}/{sample_index}/{turn}".encode()
    return int.from_bytes(hashlib.sha256(identity).digest()[:4]) >> 1


async def roll(
    sample: Sample,
    tokenizer: Tokenizer,
    generate: Generate,
    lines: Lines,
    limits: Limits,
    condition: Literal["sgls", "unconstrained"],
    scoring: Scoring,
    *,
    rollout_id: str,
    update: int,
    sample_index: int,
) -> tuple[Trajectory, RolloutRecord]:
    """One rollout played and scored, with what it cost; it raises what `play` raises."""
    trajectory = await play(sample, tokenizer, generate, lines.mocker, limits, condition)
    record = await score(
        sample,
        trajectory,
        lines.judge,
        scoring,
        ask_checker=lines.checker,
        rollout_id=rollout_id,
        update=update,
        sample_index=sample_index,
    )
    return trajectory, dataclasses.replace(record, services=lines.usage())


async def play(
    sample: Sample,
    tokenizer: Tokenizer,
    generate: Generate,
    ask_mocker: Ask,
    limits: Limits,
    condition: Literal["sgls", "unconstrained"],
) -> Trajectory:
    """Plays one rollout. An exception on the way becomes the trajectory's `error`; what was written until then stays.

    `generate` gets all tokens so far, how many it may write, and the turn's number. Of its exceptions only a ServiceError or a
    cancelled request becomes the rollout's: an engine in this process that breaks has broken for every rollout.
    """
    trajectory = Trajectory(token_ids=[], prompt_tokens=0)
    where: Boundary = "rollout"
    try:
        trajectory.token_ids = encode(tokenizer, chat.render(sample.prompt, sample.tools, generate=True))
        trajectory.prompt_tokens = len(trajectory.token_ids)
        tools = trajectory.tools = ToolSet.of(sample.tools)
        for turn in range(limits.max_turns):
            budget = min(limits.turn_tokens, _room(trajectory, limits))
            if budget < 1:
                trajectory.truncated = True
                break
            where = "policy"
            action = await generate(list(trajectory.token_ids), budget, turn)
            where = "rollout"
            if not action.token_ids:
                trajectory.truncated = True
                break
            _append_action(trajectory, tokenizer, action)
            parsed = trajectory.parsed[-1]
            if parsed.n_open == 0:
                trajectory.final_response = parsed.text.strip()
                break
            if not parsed.calls and limits.malformed_call == "end":
                break
            if action.truncated or turn == limits.max_turns - 1:
                trajectory.truncated = True
                break
            where = "mocker"
            observations = await _answer(parsed, tools, ask_mocker, condition)
            where = "rollout"
            if not _append_observations(trajectory, tokenizer, observations, limits):
                trajectory.truncated = True
                break
    except (Exception, asyncio.CancelledError) as error:
        if where == "policy" and not isinstance(error, ServiceError | asyncio.CancelledError):
            raise
        trajectory.error = _failure(where, error)
    return trajectory


def _failure(where: Boundary, error: BaseException) -> str:
    """A rollout's `error`; raises it instead if it is this task that is being cancelled, and not only what it waited for."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error
    return f"{where}: {type(error).__name__}: {error}"


def _room(trajectory: Trajectory, limits: Limits) -> int:
    """How many more tokens the rollout may have."""
    used = len(trajectory.token_ids)
    return min(limits.response_tokens - (used - trajectory.prompt_tokens), limits.max_length - used)


def _append_action(trajectory: Trajectory, tokenizer: Tokenizer, action: Generated) -> None:
    start = len(trajectory.token_ids)
    if action.logprobs is not None:
        known = trajectory.logprobs or []
        trajectory.logprobs = known + [0.0] * (start - len(known)) + action.logprobs
    trajectory.token_ids += action.token_ids
    trajectory.action_ranges.append((start, len(trajectory.token_ids)))
    trajectory.truncated = action.truncated
    trajectory.turns.append(decode(tokenizer, action.token_ids).removesuffix(chat.END))


def _append_observations(trajectory: Trajectory, tokenizer: Tokenizer, observations: Sequence[Observation], limits: Limits) -> bool:
    """Whether they, and a token after them, had room; else nothing is appended."""
    seen = [_as_seen(observation, tokenizer, limits.observation_tokens) for observation in observations]
    piece = encode(tokenizer, chat.render_observation([observation.text for observation in seen]))
    if not _has_ended(trajectory, tokenizer):
        piece = encode(tokenizer, chat.END) + piece
    if len(piece) >= _room(trajectory, limits):
        return False
    trajectory.observations += seen
    trajectory.token_ids += piece
    if trajectory.logprobs is not None:
        trajectory.logprobs += [0.0] * len(piece)
    return True


def _has_ended(trajectory: Trajectory, tokenizer: Tokenizer) -> bool:
    """Whether the turn ends on the end token; an engine that stops otherwise leaves it out, and the chat format needs it."""
    return trajectory.token_ids[-1:] == encode(tokenizer, chat.END)


def _as_seen(observation: Observation, tokenizer: Tokenizer, limit: int) -> Observation:
    return dataclasses.replace(observation, text=shorten(tokenizer, chat.neutralise(observation.text), limit))


async def _answer(parsed: ParsedTurn, tools: ToolSet, ask: Ask, condition: Literal["sgls", "unconstrained"]) -> list[Observation]:
    """One observation a call, in order; a block that could not be read gets the fixed error in its place.

    The calls of a turn do not depend on each other, and are answered at once.
    """
    malformed = Observation(MALFORMED_CALL, refused=True)
    wanted = [call for block in parsed.blocks for call in (block.calls if block.refusal is None else (None,))]
    calls = [call for call in wanted if call is not None]
    answers = await asyncio.gather(*(simulate(call, tools, ask, condition) for call in calls), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    observed = iter(answers)
    return [malformed if call is None else cast(Observation, next(observed)) for call in wanted] or [malformed]


@dataclass(slots=True)
class _Judgement:
    """What the frozen models said of one rollout, and what went wrong in asking."""

    rating: Rating | None = None
    votes: list[Vote | None] = field(default_factory=list)
    verdict: Verdict | None = None
    unread: int = 0
    overflowed: int = 0
    error: str | None = None


async def score(
    sample: Sample,
    trajectory: Trajectory,
    ask_judge: Ask,
    scoring: Scoring,
    *,
    rollout_id: str,
    update: int,
    sample_index: int,
    ask_checker: Ask | None = None,
) -> RolloutRecord:
    """Process reward, judge's rating and omission guard of a finished trajectory.

    The judge is asked for every rollout, omitted ones too: its answer then does not replace the omission reward (App. A.3).
    """
    error = trajectory.error
    measured: _Measured | None = None
    try:
        measured = _measure(sample, trajectory, scoring)
    except Exception as fault:
        error = error or _failure("scoring", fault)
    judgement = _Judgement(error=error)
    if error is None:
        judgement = await _judge(sample, trajectory, scoring, ask_judge, ask_checker)
    r_tool, r_sum, outcome = 0.0, 0.0, 0.0
    if judgement.error is None and measured is not None:
        try:
            r_tool, r_sum, outcome = _rewards(sample, trajectory, measured, judgement, scoring)
        except Exception as fault:
            judgement.error = _failure("scoring", fault)
    return RolloutRecord(
        rollout_id=rollout_id,
        sample_id=sample.sample_id,
        subset=sample.subset,
        update=update,
        sample_index=sample_index,
        r_tool=r_tool,
        r_sum=r_sum,
        outcome=outcome,
        **(measured.fields if measured else _UNMEASURED),
        rating=judgement.rating,
        votes=judgement.votes,
        verdict=judgement.verdict,
        unread=judgement.unread,
        overflowed=judgement.overflowed,
        summary_score=rating_score(judgement.rating),
        refused_calls=sum(observation.refused for observation in trajectory.observations),
        broken_responses=sum(observation.broken for observation in trajectory.observations),
        truncated=trajectory.truncated,
        error=judgement.error,
        question=sample.question,
        turns=trajectory.turns,
        observations=[observation.text for observation in trajectory.observations],
        final_response=trajectory.final_response,
        token_ids=trajectory.token_ids,
        action_ranges=trajectory.action_ranges,
        prompt_tokens=trajectory.prompt_tokens,
    )


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is known of a rollout without a frozen model: fields of its record, and what they were read from."""

    fields: dict[str, Any]
    prediction: Prediction


def _measure(sample: Sample, trajectory: Trajectory, scoring: Scoring) -> _Measured:
    rules, parsed = RULES[scoring.hierr_semantics], trajectory.parsed
    prediction = read_prediction(parsed, trajectory.tools or ToolSet.of(sample.tools), rules)
    weights = WEIGHTINGS[scoring.hierr_weights]
    parts = score_prediction(prediction, sample.gold, rules, weights=weights, matching=scoring.hierr_matching)
    stopped = trajectory.truncated or trajectory.error is not None
    fields = {
        **{name: getattr(parts, name) for name in _PARTS},
        "exact": float(min(parts.fmt, parts.name, parts.key, parts.val) == 1.0),
        "refusals": {reason: parts.refusals.get(reason, 0) for reason in REFUSALS},
        "action": action_reward(prediction, sample.gold),
        "omitted": is_omitted(parsed, sample.gold, scoring.omission_guard),
        "tool_turns": sum(turn.n_open > 0 for turn in parsed),
        "cut_calling": stopped and bool(parsed) and parsed[-1].n_open > 0,
    }
    return _Measured(fields, prediction)


_PARTS = ("fmt", "name", "key", "val", "par", "process", "n_open", "n_close", "n_valid")
_UNMEASURED: dict[str, Any] = {
    **dict.fromkeys(_PARTS, 0),
    **{
        "exact": 0.0,
        "refusals": dict.fromkeys(REFUSALS, 0),
        "action": 0.0,
        "omitted": False,
        "tool_turns": 0,
        "cut_calling": False,
    },
}


async def _judge(sample: Sample, trajectory: Trajectory, scoring: Scoring, ask_judge: Ask, ask_checker: Ask | None) -> _Judgement:
    """Asks the frozen models what this scoring needs to know."""
    said = _Judgement()
    responses = [observation.text for observation in trajectory.observations]
    where: Boundary = "judge"
    try:
        if not (scoring.judge_short_circuits and is_short_circuited(responses, trajectory.final_response)):
            said.rating = await _read(_rate(sample, responses, trajectory, ask_judge), said)
        if scoring.judges_outcome:
            decided = decide(sample.question, trajectory.parsed, responses, trajectory.final_response, ask_judge)
            said.verdict = await _read(decided, said)
        where = "checker"
        if scoring.votes:
            votes = await _read(_votes(sample, trajectory, scoring.votes, ask_checker), said)
            said.votes = votes or [None] * scoring.votes
    except (Exception, asyncio.CancelledError) as fault:
        said.error = _failure(where, fault)
    return said


async def _read(answer: Awaitable[_Said | None], said: _Judgement) -> _Said | None:
    """What a frozen model says; None, and counted on `said`, if nobody can read it or it cannot hold the question."""
    try:
        value = await answer
    except PromptTooLong:
        said.overflowed += 1
        return None
    except AnswerCut:
        value = None
    said.unread += value is None
    return value


async def _rate(sample: Sample, responses: Sequence[str], trajectory: Trajectory, ask: Ask) -> Rating | None:
    return parse_rating(await ask(judge_prompt(sample.question, responses, trajectory.final_response)))


async def _votes(sample: Sample, trajectory: Trajectory, count: int, ask: Ask | None) -> list[Vote | None] | None:
    """So many votes, None where one failed or could not be read; None for all if none could be; raises if nobody answered.

    App. C leaves out votes that failed: the others make the mean.
    """
    if ask is None:
        raise ValueError("a completeness checker was expected to ask; none was given")
    responses = [observation.text for observation in trajectory.observations]
    prompt = completeness_prompt(sample.tools, sample.question, trajectory.parsed, responses)
    answers = await asyncio.gather(*(ask(prompt) for _ in range(count)), return_exceptions=True)
    faults = [answer for answer in answers if isinstance(answer, BaseException) and not isinstance(answer, AnswerCut)]
    if len(faults) == count:
        raise faults[0]
    votes = [parse_vote(answer) if isinstance(answer, str) else None for answer in answers]
    return None if votes.count(None) == count else votes


def _rewards(
    sample: Sample, trajectory: Trajectory, measured: _Measured, said: _Judgement, scoring: Scoring
) -> tuple[float, float, float]:
    """R_tool, R_sum and the outcome as they enter the estimator."""
    rules, omitted = RULES[scoring.hierr_semantics], measured.fields["omitted"]
    evidence = Evidence(
        turns=trajectory.parsed,
        prediction=measured.prediction,
        gold=sample.gold,
        rules=rules,
        hierr=measured.fields["process"],
        answered=sum(not observation.refused for observation in trajectory.observations),
        votes=said.votes,
    )
    r_tool = process_reward(scoring.process_reward).reward(evidence)
    r_tool, r_sum = apply_omission(r_tool, rating_score(said.rating), omitted, scoring.omission_penalty)
    if scoring.judges_outcome:
        outcome = float(said.verdict == "Solved")
    else:
        outcome = reference_outcome(measured.prediction, sample.gold, rules)
    return r_tool, r_sum, apply_omission_to_outcome(outcome, omitted)


def prompts_that_fit(samples: Sequence[Sample], tokenizer: Tokenizer, limits: Limits) -> tuple[list[Sample], int]:
    """The samples whose prompt leaves room for the response, and how many did not."""
    room = limits.max_length - limits.response_tokens
    kept = [s for s in samples if len(encode(tokenizer, chat.render(s.prompt, s.tools, generate=True))) <= room]
    return kept, len(samples) - len(kept)
