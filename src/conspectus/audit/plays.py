"""What plays on two neighbouring tables prove: a lower bound on ε, right except with a stated probability.

An event is sought that is likelier on the one table than on the other. It is chosen on one half of the plays and judged
on the other: with P̲ a lower confidence bound on its probability on the one table and P̄ an upper one on the other,
ε ≥ ln((P̲ − δ)/P̄) except with probability ALPHA (Clopper and Pearson's exact binomial intervals).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from conspectus.privacy.relation import Neighbours

ALPHA = 1e-6
"""The chance that an audit of an honest door refutes it."""

TWIN_ALPHA = 1e-2
"""The confidence with which a twin is refuted: nobody is accused, so it may be lower."""


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What an audit found; `twin_bound` is what it found about the broken twin.

    A twin claims what the honest one does, unless it is the claim that is broken: then `twin_claimed` is what it says.
    """

    name: str
    neighbours: Neighbours
    claimed: float
    delta: float
    lower_bound: float
    twin: str
    twin_bound: float
    trials: int
    twin_claimed: float | None = None

    @property
    def passed(self) -> bool:
        return self.lower_bound <= self.claimed

    @property
    def twin_caught(self) -> bool:
        return self.twin_bound > (self.claimed if self.twin_claimed is None else self.twin_claimed)


Views = Callable[[int, int], NDArray[np.float64]]
"""What many plays on one of two neighbouring tables give, a number each: from the side and the number of plays."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What can be attacked: views of two neighbouring tables, a claim (ε, δ) about them, and a twin that is broken.

    Attributes:
        name: What is attacked.
        neighbours: How the two tables are neighbours.
        views: The plays.
        claim: The (ε, δ) that they are said to keep.
        twin: What is wrong with the twin, or its class, whose first sentence says so.
        twin_claim: What the twin claims, where that is what is broken.
        twin_views: What the twin gives, where it is broken in deed.
        effort: Multiplies the plays that it needs.
    """

    name: str
    neighbours: Neighbours
    views: Views
    claim: tuple[float, float]
    twin: type | str
    twin_claim: tuple[float, float] | None = None
    twin_views: Views | None = None
    effort: int = 1

    def judge(self, trials: int) -> AuditResult:
        """Play both sides; a twin that only claims too little is judged by the very same views."""
        here, there = (self.views(side, trials) for side in (0, 1))
        found = lower_bound(here, there, delta=self.claim[1], alpha=ALPHA)
        if self.twin_views is not None:
            here, there = (self.twin_views(side, trials) for side in (0, 1))
        claimed = self.twin_claim or self.claim
        twin = self.twin if isinstance(self.twin, str) else (self.twin.__doc__ or "").split(": ", 1)[1].split(".")[0]
        return AuditResult(
            name=self.name,
            neighbours=self.neighbours,
            claimed=self.claim[0],
            delta=self.claim[1],
            lower_bound=found,
            twin=twin,
            twin_bound=lower_bound(here, there, delta=claimed[1], alpha=TWIN_ALPHA),
            twin_claimed=claimed[0] if self.twin_claim else None,
            trials=trials,
        )


def lower_bound(
    here: NDArray[np.float64], there: NDArray[np.float64], *, delta: float = 0.0, alpha: float = ALPHA
) -> float:
    """A lower bound on ε from plays on two neighbouring tables, right except with probability `alpha`."""
    half = len(here) // 2
    best = max(_events(here[:half], there[:half]), key=lambda event: _estimate(event, here[:half], there[:half], delta))
    first, second = (here[half:], there[half:]) if best[2] else (there[half:], here[half:])
    hits, others = int(_inside(best, first).sum()), int(_inside(best, second).sum())
    likely = 0.0 if hits == 0 else float(beta.ppf(alpha / 2, hits, len(first) - hits + 1))
    rare = 1.0 if others == len(second) else float(beta.ppf(1 - alpha / 2, others + 1, len(second) - others))
    return max(0.0, math.log((likely - delta) / rare)) if likely > delta else 0.0


Tail = tuple[float, bool, bool]
"""An event: a threshold, whether it lies above it, and whether it should be likelier on the first table."""


def _events(here: NDArray[np.float64], there: NDArray[np.float64]) -> Iterator[Tail]:
    levels = np.unique(np.quantile(np.concatenate([here, there]), np.linspace(0, 1, 101)))
    return ((float(level), above, first) for level in levels for above in (True, False) for first in (True, False))


def _inside(event: Tail, plays: NDArray[np.float64]) -> NDArray[np.bool_]:
    return plays >= event[0] if event[1] else plays <= event[0]


def _estimate(event: Tail, here: NDArray[np.float64], there: NDArray[np.float64], delta: float) -> float:
    """A cautious plug-in estimate, so that the choice prefers events that the other half can confirm."""
    first, second = (here, there) if event[2] else (there, here)
    n = len(first)
    p, q = float(_inside(event, first).mean()), float(_inside(event, second).mean())
    p -= 5 * math.sqrt(p * (1 - p) / n) + 12 / n
    q += 5 * math.sqrt(q * (1 - q) / n) + 12 / n
    return math.log((p - delta) / q) if p > delta else -math.inf
