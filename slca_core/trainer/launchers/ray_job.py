"""Training as a job of a running Ray cluster: submitted once, followed until it ends, found again after the flow was killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import aiohttp
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient

from slca_core.errors import ServiceError
from slca_core.trainer.launch import failure
from slca_core.trainer.launchers.jobs import follow, job_environment

Answer = TypeVar("Answer")
_LOG = "log"  # the key under which a job's metadata say whose it is
_LAST_LINES_S = 10.0
# A job of days is not given up for a dashboard that restarts.
PATIENCE_S = 300.0


class RayJob:
    """The job of one run folder.

    Ray refuses a submission id it has seen, so an attempt after a failed one has a number behind the name; so has a run of the
    same step below another root. A folder's own jobs are told by the log they name.
    """

    def __init__(self, address: str, name: str, log: Path) -> None:
        self.address, self.name, self.log = address, name, log.resolve()

    def run(
        self,
        module: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        on_poll: Callable[[], None],
        say: Callable[[str], None],
        poll_s: float = 1.0,
    ) -> None:
        """Runs `python -m module argv` as a job to its end; one that is on its way already, or ended well, is not submitted again.

        Raises:
            SlcaError: the job failed, or was stopped: its own sentence if it left one, else the end of its log.
            ServiceError: the cluster does not answer.
        """
        submission = self._submission(module, argv, env, say)
        stream = threading.Thread(target=self._stream, args=(submission,), name=f"log of {submission}", daemon=True)
        stream.start()
        goes_on = f"{submission} goes on at {self.address}; the next run follows it. To stop it: {self._stop_command(submission)}"
        follow(
            lambda: not self._status(submission).is_terminal(),
            on_poll=on_poll,
            on_leave=lambda: say(goes_on),
            poll_s=poll_s,
        )
        stream.join(_LAST_LINES_S)
        on_poll()
        status = self._status(submission)
        if status is JobStatus.STOPPED:
            raise ServiceError(f"The Ray job {submission} was stopped. The next run goes on where it was. (log: {self.log})")
        if status is not JobStatus.SUCCEEDED:
            code = self._ask(lambda: self._client.get_job_info(submission)).driver_exit_code
            raise failure(module, code, self.log)

    def _submission(self, module: str, argv: Sequence[str], env: Mapping[str, str], say: Callable[[str], None]) -> str:
        """The id of this folder's job, found or submitted."""
        jobs = self._ask(lambda: self._client.list_jobs())
        if found := self._own(jobs):
            say(f"follows the Ray job {found} at {self.address}")
            return found
        taken = {job.submission_id for job in jobs}
        attempts = itertools.chain([self.name], (f"{self.name}-{attempt}" for attempt in itertools.count(2)))
        submission = next(attempt for attempt in attempts if attempt not in taken)
        # From now on the folder has a job: one that lost its log is not taken for it.
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        self._ask(
            lambda: self._client.submit_job(
                entrypoint=shlex.join([sys.executable, "-m", module, *argv]),
                submission_id=submission,
                metadata={_LOG: str(self.log)},
                # The driver gives its workers more; where both name a variable, the driver's value holds.
                runtime_env={"env_vars": {**job_environment(env), "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"}},
            )
        )
        say(f"submitted the Ray job {submission} to {self.address}; to stop it: {self._stop_command(submission)}")
        return submission

    def _own(self, jobs: Sequence[JobDetails]) -> str | None:
        """The job of this folder that is on its way or ended well; none if the folder was emptied since."""
        if not self.log.exists():
            return None
        ended_ill = (JobStatus.FAILED, JobStatus.STOPPED)
        own = [job for job in jobs if (job.metadata or {}).get(_LOG) == str(self.log) and job.status not in ended_ill]
        return own[0].submission_id if own else None

    def _status(self, submission: str) -> JobStatus:
        return self._ask(lambda: self._client.get_job_status(submission), PATIENCE_S)

    @cached_property
    def _client(self) -> JobSubmissionClient:
        return JobSubmissionClient(self.address)

    def _ask(self, question: Callable[[], Answer], patience_s: float = 0.0) -> Answer:
        """The cluster's answer; asked again for `patience_s` where there is none."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return question()
            except (OSError, RuntimeError) as error:
                if time.monotonic() >= deadline:
                    raise ServiceError(
                        f"A Ray cluster was expected to answer at {self.address} (machine.launcher.address): {error}. A job it has "
                        "goes on; the next run follows it."
                    ) from None
            time.sleep(1.0)

    def _stream(self, submission: str) -> None:
        """Copies the job's output into the log, from its beginning; a broken connection costs lines of the log and nothing else."""

        async def copy() -> None:
            with self.log.open("w") as sink:
                async for lines in JobSubmissionClient(self.address).tail_job_logs(submission):
                    sink.write(lines)
                    sink.flush()

        with contextlib.suppress(OSError, RuntimeError, aiohttp.ClientError):
            asyncio.run(copy())

    def _stop_command(self, submission: str) -> str:
        return f"ray job stop --address {self.address} {submission}"
