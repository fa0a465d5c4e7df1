"""Where a checkpoint answers that is evaluated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PolicyServer:
    """A served checkpoint: vLLM's OpenAI API, completions by token ids; other endpoints are asked chat completions alone.

    Attributes:
        url: of its root; user and password stand in it by reference.
        key_env: environment variable with its key, if it wants one.
        path: from the root to the API.
    """

    url: str
    model: str
    key_env: str | None = None
    path: str = "/v1"

    @property
    def api_url(self) -> str:
        """What OpenAI's clients call its base URL."""
        return self.url + self.path

    @property
    def key(self) -> str | None:
        """Where its key is kept; none if it wants none."""
        return f"${{env:{self.key_env}}}" if self.key_env else None
