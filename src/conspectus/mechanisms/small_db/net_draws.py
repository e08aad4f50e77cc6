"""What the net mechanism and SmallDB share: one draw from a public range of guesses, by the worst error of each.

A net is data-independent: its members and how often each counts are fixed before the table is looked at. Any list of
guesses will do (`listed`); all small databases are the net of Algorithm 4 (`small_databases`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import Net
from conspectus.curator.curator import Curator
from conspectus.curator.nets import HIGHEST, ListedNet
from conspectus.curator.scores import ERROR_STEPS
from conspectus.data.domain import Domain
from conspectus.mechanisms.mechanism import Problem
from conspectus.queries.sensitivity import fixed
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.rows import Rows


class NetError(ValueError):
    """Guesses that make no net: none at all, or one that is no table, histogram or synopsis of the schema."""


@dataclass(frozen=True, eq=False)
class PublicNet:
    """Public guesses at a table, which `cs.net` reads; made from the private rows they would void the guarantee."""

    domain: Domain
    members: tuple[Rows | Histogram, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise NetError("a net without a member has nothing to draw: give at least one guess")

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return f"<a public net of {len(self):,} members>"


@lru_cache(maxsize=4)
def answers_of(net: PublicNet, workload: Workload) -> NDArray[np.float64]:
    """What each member answers, a line for each; all public. Raises `CannotAnswer`."""
    return fixed(np.stack([member.answer(workload) for member in net.members]))


def coarseness(total: float) -> int:
    """Grid steps to a level, so that errors up to twice the table have no more levels than a listed net tells apart."""
    return max(1, math.ceil(2 * ERROR_STEPS * total / HIGHEST))


def listed(
    workload: Workload, fractions: NDArray[np.float64], total: float, *, masses: tuple[int, ...] | None = None
) -> ListedNet:
    """A net of guesses at the answers, one line of fractions for each member; each counts once, or `masses` times.

    `total` is the number of rows that the fractions are of: public, or paid for.
    """
    counted = (1,) * len(fractions) if masses is None else masses
    return ListedNet(workload, fractions * total, counted, coarse=coarseness(total))


def choose(curator: Curator, problem: Problem, net: Net, price: Fraction) -> NDArray[np.int64]:
    """One member, by the exponential mechanism, for this price at most."""
    return np.asarray(curator.select(net, problem.selection(price))[0], dtype=np.int64)


def level_sensitivity(problem: Problem, coarse: int) -> Fraction:
    """How many levels of `coarse` grid steps one unit moves a net's scores by."""
    return Fraction(-(-problem.error_sensitivity // coarse))
