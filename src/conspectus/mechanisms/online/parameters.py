"""What every online mechanism of this family can be told, and what public facts make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conspectus.mechanisms.settings import SHARE, check_settings, is_share
from conspectus.mechanisms.sparse_vector import SparsePlan
from conspectus.whole_numbers import MOST

from .priming import Priming


@dataclass(frozen=True, kw_only=True)
class OnlineSettings:
    """How surprises are found and paid for. What is not given follows from public facts.

    Args:
        hits: How many surprises are paid for.
        threshold: A guess that is wrong by more than this fraction of the rows is a surprise.
        measuring: The share of a hit's price that buys its measured answer, between 0 and 1. The rest finds the hit.
        theorem: Take all of these from the mechanism's theorem instead, where the number of rows is public.
    """

    hits: int | None = None
    threshold: float | None = None
    measuring: float | None = None
    theorem: bool = False

    def __post_init__(self) -> None:
        chosen = self.hits or self.threshold is not None or self.measuring
        check_settings(
            (
                (self.hits is None or 1 <= self.hits <= MOST) and 0 <= (self.threshold or 0) < 1,
                f"hits lie between 1 and {MOST:,}, and threshold is a fraction of the rows",
            ),
            (self.measuring is None or is_share(self.measuring), f"measuring {SHARE}"),
            (not (self.theorem and chosen), "theorem chooses hits, threshold and measuring itself: leave them out"),
        )


@dataclass(frozen=True, kw_only=True)
class OnlinePlan:
    """What public facts decide about a session on a table of `rows` rows.

    Attributes:
        rows: The number of rows planned for: the public or the declared one, else the one assumed.
        sparse: The sparse vector that finds and measures surprises.
        guess_error: About how wrong a guess will be, in counts; where a theorem plans, its threshold.
        width: About how far the ends of a 95 % interval will be from the answer, in counts.
        level: The α of the theorem, where the plan is the theorem's.
        priming: What is bought before the first question.
    """

    rows: float
    sparse: SparsePlan
    guess_error: float
    width: float
    level: float | None = None
    priming: Priming | None = None

    def to_json(self) -> dict[str, Any]:
        """The plan for a report."""
        said = self.sparse.to_json() | ({} if self.level is None else {"alpha": self.level})
        if self.priming is not None:
            said |= {"marginals": len(self.priming.workload.blocks), "priming_scale": self.priming.law.scale}
        return said
