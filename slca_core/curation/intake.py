"""What comes in from the sources: counted while it streams by, and what nobody can read put away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from slca_core.curation.output import put_away
from slca_core.curation.readers import Parsed, Rejected, read_source


@dataclass(slots=True)
class Intake:
    """Counts that grow while records stream by.

    Attributes:
        rejected, findings, repaired: by reason, finding and form, as in the manifest.
    """

    read: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)

    @property
    def parsed(self) -> int:
        """Records that could be read."""
        return self.read - self.rejected.total()

    def take(self, sources: Iterable[Path], quarantine: TextIO) -> Iterator[Parsed]:
        """The records that can be read; the others go to the quarantine."""
        for outcome in (outcome for source in sources for outcome in read_source(source)):
            self.read += 1
            if isinstance(outcome, Rejected):
                self.rejected[str(outcome.reason)] += 1
                put_away(quarantine, outcome.reason, outcome.detail, outcome, outcome.record_text)
            else:
                self.repaired.update(outcome.repairs)
                yield outcome
