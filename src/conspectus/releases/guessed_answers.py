"""Which answers of a session's release were guesses that its watch let pass, and how far each may be from the truth.

What a watch proves, it proves of the one number that was compared with the truth. So the bound goes with the answer as
it was given, and with no other question: not with a sum of such answers, nor with what the guess says of cells next to
it, which nobody compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.curator.scores import ERROR_STEPS
from conspectus.mechanisms.bounds import Margin
from conspectus.privacy.events import Event, ThresholdWatch
from conspectus.privacy.relation import Relation
from conspectus.synopses.synopsis import BadSynopsis, part

_ROUNDED = 1e-9


@dataclass(frozen=True, eq=False)
class GuessedAnswers:
    """The bounds of guessed answers.

    Attributes:
        margins: The different bounds, as a session states them.
        which: For each question of the release the place of its bound; -1 where it was not guessed.
    """

    margins: tuple[Margin, ...]
    which: NDArray[np.int64]

    @classmethod
    def of(cls, margins: Sequence[Margin | None]) -> GuessedAnswers:
        """From the bound of each question; None where it was not guessed."""
        places: dict[Margin, int] = {}
        which = [-1 if margin is None else places.setdefault(margin, len(places)) for margin in margins]
        return cls(tuple(places), np.array(which, dtype=np.int64))

    def bound(self, place: int) -> Margin | None:
        """The bound of one answer; None where it was not guessed."""
        which = int(self.which[place])
        return None if which < 0 else self.margins[which]

    def contradicted(self, events: Sequence[Event], relation: Relation) -> bool:
        """Whether some bound speaks of less noise than the watches among the acts have drawn.

        A watch of ε hides its threshold with noise of scale m/a and each comparison with 2m/b, where a + b ≤ ε and m
        are the rows of a unit. So m/scale of the one and 2m/scale of the other add up to no more than ε.
        """
        paid = [event.epsilon.under(relation.neighbours) for event in events if isinstance(event, ThresholdWatch)]
        most = float(max((each for each in paid if each is not None), default=0)) * (1 + _ROUNDED)
        for margin in self.margins:
            plain = margin.summed is None and not margin.mixed and margin.centre is None and margin.grid == ERROR_STEPS
            if not plain or len(margin.noises) != 2 or any(law.kind != "laplace" for law, _ in margin.noises):
                return True
            (hiding, _), (comparing, _) = margin.noises
            if relation.max_rows * (1 / hiding.scale + 2 / comparing.scale) > most:
                return True
        return False

    def parts(self) -> tuple[list[dict[str, Any]], pa.Table]:
        """The margins as JSON, and which one each question has."""
        return [margin.to_json() for margin in self.margins], pa.table({"margin": self.which})

    @classmethod
    def from_parts(cls, margins: Sequence[Mapping[str, Any]], tables: Mapping[str, pa.Table], name: str) -> Self:
        """The inverse of `parts`; raises `BadSynopsis` or `ValueError`."""
        which = part(tables, name, [("margin", pa.int64())])["margin"].to_numpy()
        if which.size and not (which.min() >= -1 and which.max() < len(margins)):
            raise BadSynopsis("the guessed answers of the release are not readable")
        return cls(tuple(Margin.from_json(margin) for margin in margins), which)
