"""Which questions were answered: all of them, or those with the largest counts, as `mechanism="top"` found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.mechanisms.bounds import FAILURE
from conspectus.queries.language.to_sql import to_sql
from conspectus.queries.query import Query
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import CannotAnswer
from conspectus.tabular import ResultTable

from .answer import standing_notes

if TYPE_CHECKING:
    from conspectus.data.schema import Schema

    from .release import Release

PROBABILITY = 1 - FAILURE
"""With which winners are as near to the largest counts as `parameters["within"]` says."""
_NUMBERS = ("counts", "within")


def checked_parameters(mechanism: str, parameters: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """The parameters in a file: of a release that chose among its questions, winners that it can show.

    Raises:
        ValueError: Some are no different questions of the workload, or its promise is no number.
    """
    if mechanism == "top":
        found = parameters["winners"]
        places = isinstance(found, list) and all(type(each) is int and 0 <= each < len(workload) for each in found)
        if not places or len(set(found)) != len(found):
            raise ValueError("the winners are different questions, by their positions")
        if any(type(parameters[name]) not in (int, float) or not 0 <= parameters[name] < np.inf for name in _NUMBERS):
            raise ValueError("what winners cost and are near to are numbers from 0 on")
    return parameters


class Winners:
    """What lets a release say how many of its questions it answers, and which have won."""

    if TYPE_CHECKING:
        workload: Workload
        answers: NDArray[np.float64]
        mechanism: str
        parameters: Mapping[str, Any]
        left_out: int

    @property
    def questions(self) -> int:
        """How many questions were asked, whether they are listed or left out."""
        return len(self.workload) + self.left_out

    @property
    def answered(self) -> int:
        """How many of them have an answer: all, but for those that `mechanism="top"` did not find."""
        return int(np.count_nonzero(~np.isnan(self.answers))) + self.left_out

    @property
    def chooses(self) -> bool:
        """Whether it found some of its questions, and left the others without an answer."""
        return self.mechanism == "top"

    @property
    def winners(self) -> tuple[int, ...]:
        """The positions in the workload of what `mechanism="top"` found, in the order in which they were found.

        Raises:
            CannotAnswer: The release did not choose among its questions.
        """
        if not self.chooses:
            raise CannotAnswer('this release answered all of its questions: release with mechanism="top" to choose')
        return tuple(self.parameters["winners"])

    @property
    def _how_many(self) -> str:
        """Its questions in a few words."""
        answered = f"{self.answered:,} of " if self.answered != self.questions else ""
        return f"{answered}{self.questions:,} question{'' if self.questions == 1 else 's'}"


@dataclass(frozen=True, kw_only=True)
class Winner:
    """One question that was found; `count`, `low` and `high` are None where its count was not bought."""

    position: int
    question: str
    count: float | None
    low: float | None
    high: float | None

    @property
    def counted(self) -> str:
        """Its count in words."""
        return "not bought" if self.count is None else f"{self.count:,.0f}"

    @property
    def between(self) -> str:
        """Its interval in words, rounded outward."""
        if self.low is None or self.high is None:
            return "" if self.count is None else "none"
        return f"{np.floor(self.low):,.0f} to {np.ceil(self.high):,.0f}"


def found(release: Release, confidence: float) -> list[Winner]:
    """What `mechanism="top"` found, in the order in which it did, with fresh counts where they were bought.

    Args:
        release: A release that chose among its questions.
        confidence: The probability with which each interval holds.
    """
    asked, divisor = release.evidence.workload, release.total.divisor
    lines = []
    for position in release.winners:
        ends: dict[str, float | None] = {"count": None, "low": None, "high": None}
        if release.parameters["counts"]:
            answer = release.ask(asked[position], confidence=confidence)
            shares = {"count": answer.fraction, "low": answer.low, "high": answer.high}
            # Shares are counts divided by it: the last digits of the product are rounding, and no part of a count.
            ends = {name: None if share is None else round(share * divisor, 6) for name, share in shares.items()}
        words = question_words(release.schema, asked.query(position), position)
        lines.append(Winner(position=position, question=words, **ends))
    return lines


def question_words(schema: Schema, query: Query, position: int) -> str:
    """A question as a predicate, or by its position where it is none."""
    try:
        return to_sql(schema, query)
    except WorkloadError:
        return f"question {position}"


def winners_table(release: Release, confidence: float) -> ResultTable:
    """The winners of a release, best first.

    Args:
        release: A release that chose among its questions.
        confidence: The probability with which each interval holds.

    Returns:
        Lines of `place`, `question`, `count`, `low` and `high`; the numbers are null where none were bought.
    """
    lines = [
        {"place": place, "question": one.question, "count": one.count, "low": one.low, "high": one.high}
        for place, one in enumerate(found(release, confidence), 1)
    ]
    numbers = [(name, pa.float64()) for name in ("count", "low", "high")]
    made = pa.Table.from_pylist(lines, schema=pa.schema([("place", pa.int64()), ("question", pa.string()), *numbers]))
    return ResultTable(made, ("question",), (("count", "low", "high"),), standing_notes(release.schema))
