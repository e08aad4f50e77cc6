"""An empirical lower bound on ε for each door, on worst-case neighbouring tables, beside the claim.

Each case plays one door many times on a table D and on a neighbour D′, keeps one number of each play, and looks for an
event that is likelier on one table than on the other. The event is chosen on one half of the plays and judged on the
other: with P̲ a lower confidence bound on its probability on the one table and P̄ an upper one on the other,
ε ≥ ln((P̲ − δ)/P̄) except with probability ALPHA (Clopper and Pearson's exact binomial intervals). A bound above the
claim refutes the claim. An audit can only refute; so each case has a twin that is broken on purpose, and an audit that
does not refute the twin has no power and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import beta

from .curator.curator import Curator, Net, Watch, selection_range
from .curator.scores import GRID, STEPS, Reweighting, Score, query_errors
from .data.domain import Domain
from .data.schema import Schema
from .data.sources import open_table
from .mechanisms.mechanism import root_up
from .privacy.accounting import Filter, epsilon_of, scale_up
from .privacy.events import Noise
from .privacy.guarantee import Neighbours
from .privacy.noise import Coins, SystemCoins, UnsafeSeededCoins, discrete_gaussian, discrete_laplace
from .queries.conjunctions import Conjunctions
from .queries.marginals import Marginal
from .queries.query import Literal, Predicate, Workload

ALPHA = 1e-6
"""The chance that an audit of an honest door refutes it."""

TWIN_ALPHA = 1e-2
"""The confidence with which a twin is refuted: nobody is accused, so it may be lower."""

Play = Callable[[Curator], float]


class DrawnAhead(UnsafeSeededCoins):
    """The real sampler's noise, drawn in batches and handed out one by one: an audit asks for millions of single draws.

    Each draw is used once. It is for audits alone, since noise that lies in memory could be read there.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self._drawn: dict[tuple[Draw, float], list[int]] = {}

    def bytes(self, count: int) -> bytes:
        return SystemCoins().bytes(count)

    def discrete_laplace(self, count: int, scale: float) -> NDArray[np.int64]:
        return self._next(discrete_laplace, count, scale)

    def discrete_gaussian(self, count: int, sigma: float) -> NDArray[np.int64]:
        return self._next(discrete_gaussian, count, sigma)

    def _next(self, draw: Draw, count: int, scale: float) -> NDArray[np.int64]:
        ready = self._drawn.setdefault((draw, scale), [])
        if len(ready) < count:
            ready.extend(draw(np.zeros(_BATCH + count, dtype=np.int64), scale, SystemCoins()).tolist())
        return np.array([ready.pop() for _ in range(count)], dtype=np.int64)


Draw = Callable[[NDArray[np.int64], float, Coins], NDArray[np.int64]]
_BATCH = 4096


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What an audit found; `twin_bound` is what it found about the broken twin."""

    name: str
    neighbours: Neighbours
    claimed: float
    delta: float
    lower_bound: float
    twin: str
    twin_bound: float
    trials: int

    @property
    def passed(self) -> bool:
        return self.lower_bound <= self.claimed

    @property
    def twin_caught(self) -> bool:
        return self.twin_bound > self.claimed


class HalfTheNoise(Curator):
    """Broken on purpose: half the noise that was paid for, as when the sensitivity of a replaced row is forgotten."""

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        return super().measure(what, Noise(law.kind, law.scale / 2))


class ForgottenFactor(Curator):
    """Broken on purpose: the exponential mechanism without the factor 2 that non-monotone scores need."""

    def select(self, score: Score | Net, epsilon: Fraction, *, draws: int = 1) -> NDArray[np.int64]:
        return super().select(score, 2 * epsilon, draws=draws)


class ForgottenRounds(Curator):
    """Broken on purpose: boosting's draws charged as if one round alone had moved the weights, not all that were."""

    def select(self, score: Score | Net, epsilon: Fraction, *, draws: int = 1) -> NDArray[np.int64]:
        rounds = len(score.rates) if isinstance(score, Reweighting) else 1
        return super().select(score, rounds * epsilon, draws=draws)


class BareThreshold(Curator):
    """Broken on purpose: the threshold itself gets no noise."""

    def above_threshold(self, threshold: Fraction, epsilon: Fraction) -> Watch:
        reach = Fraction(GRID * self.max_rows)
        return Watch(self._noisy_error, int(threshold * GRID), scale_up(4 * reach / epsilon))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A door, two neighbouring tables of codes (rows × columns, all two-valued), a play and its claim."""

    name: str
    neighbours: Neighbours
    tables: tuple[NDArray[np.int64], NDArray[np.int64]]
    play: Play
    epsilon: float
    delta: float
    twin: type[Curator]
    effort: int = 1


def run(
    door: str | None = None, trials: int = 20_000, progress: Callable[[str], None] | None = None
) -> list[AuditResult]:
    """Audit every door, or those whose name starts with `door`, under both relations."""
    results = []
    for case in cases():
        if door is None or case.name.startswith(door):
            if progress is not None:
                progress(f"{case.name}, {case.neighbours}")
            results.append(audit(case, trials * case.effort))
    return results


def audit(case: Case, trials: int) -> AuditResult:
    """Play the case and its twin, and bound ε from below for both."""
    return AuditResult(
        name=case.name,
        neighbours=case.neighbours,
        claimed=case.epsilon,
        delta=case.delta,
        lower_bound=_bound(case, Curator, trials, ALPHA),
        twin=(case.twin.__doc__ or "").split(": ", 1)[1].split(".")[0],
        twin_bound=_bound(case, case.twin, trials, TWIN_ALPHA),
        trials=trials,
    )


def _bound(case: Case, kind: type[Curator], trials: int, alpha: float) -> float:
    here, there = (_plays(case, kind, table, trials) for table in case.tables)
    return lower_bound(here, there, delta=case.delta, alpha=alpha)


def _plays(case: Case, kind: type[Curator], codes: NDArray[np.int64], trials: int) -> NDArray[np.float64]:
    columns = _domain(codes.shape[1]).names
    schema = Schema.from_dict({"name": "audit", "columns": {name: {"type": "boolean"} for name in columns}})
    table = open_table(pa.table({name: codes[:, i].astype(bool) for i, name in enumerate(columns)}), schema)
    endless = Filter("zcdp", Fraction(10**12), case.neighbours, missing=Fraction(10**12))
    curator = kind(table, endless, neighbours=case.neighbours, coins=DrawnAhead())
    return np.array([case.play(curator) for _ in range(trials)])


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


def cases() -> Iterator[Case]:
    """Every door under both relations, on tables chosen so that one unit does the most it can."""
    from .audit_nets import net_cases

    yield from net_cases()
    from .audit_sparse import sparse_cases

    yield from sparse_cases()
    relations: tuple[Neighbours, ...] = ("replace", "add-remove")
    for neighbours in relations:
        replaced = neighbours == "replace"
        half = np.repeat([[0], [1]], 8, axis=0)
        neighbour = np.repeat([[0], [1]], [7, 9], axis=0) if replaced else half[:-1]
        moved = 2 if replaced else 1
        yield Case(
            name="measure-laplace",
            neighbours=neighbours,
            tables=(half, neighbour),
            play=_measuring(Noise("laplace", float(moved))),
            epsilon=1.0,
            delta=0.0,
            twin=HalfTheNoise,
        )
        yield Case(
            name="measure-gaussian",
            neighbours=neighbours,
            tables=(half, neighbour),
            play=_measuring(Noise("gaussian", root_up(Fraction(moved) / (2 * RHO)))),
            epsilon=epsilon_of(RHO, DELTA),
            delta=DELTA,
            twin=HalfTheNoise,
            effort=2,
        )
        # From the first table to the second one error falls by one count and all the others rise.
        width = 12
        guess = np.zeros(width) if replaced else np.array([0.0] + [1.0] * (width - 1))
        person = np.array([[1] + [0] * (width - 1)]) if replaced else np.ones((1, width), dtype=np.int64)
        other = np.array([[0] + [1] * (width - 1)]) if replaced else np.zeros((0, width), dtype=np.int64)
        crowd = np.zeros((4, width), dtype=np.int64)
        tables = (np.concatenate([crowd, person]), np.concatenate([crowd, other]))
        yield Case(
            name="select",
            neighbours=neighbours,
            tables=tables,
            play=_selecting(guess, Fraction(1)),
            epsilon=1.0,
            delta=0.0,
            twin=ForgottenFactor,
            effort=2,
        )
        boosted, spread = _boosted(guess)
        yield Case(
            name="boosting",
            neighbours=neighbours,
            tables=tables,
            play=_drawing(boosted, spread),
            epsilon=float(spread),
            delta=0.0,
            twin=ForgottenRounds,
        )
        yield Case(
            name="above-threshold",
            neighbours=neighbours,
            tables=tables,
            play=_watching(guess[:9], Fraction(3), threshold=Fraction(2, 3)),
            epsilon=3.0,
            delta=0.0,
            twin=BareThreshold,
            effort=6,
        )


RHO = Fraction(1, 8)
DELTA = 0.01


def _domain(width: int) -> Domain:
    return Domain(tuple(f"c{i}" for i in range(width)), (2,) * width)


def _ones(width: int) -> Workload:
    """For each column the question "is it true?"."""
    domain = _domain(width)
    return Workload(domain, (Conjunctions.of(domain, [Predicate(((Literal(i, (1,)),),)) for i in range(width)]),))


def _measuring(law: Noise) -> Play:
    question = Workload(_domain(1), (Marginal(_domain(1), (0,)),))

    def play(curator: Curator) -> float:
        zeros, ones = curator.measure(question, law)
        return float(ones - zeros) if curator.neighbours == "replace" else float(ones)

    return play


def _selecting(guess: NDArray[np.float64], epsilon: Fraction) -> Play:
    score = query_errors(_ones(len(guess)), guess)

    def play(curator: Curator) -> float:
        return float(curator.select(score, epsilon)[0] == 0)

    return play


def _boosted(guess: NDArray[np.float64]) -> tuple[Reweighting, Fraction]:
    """Weights after three rounds with the same guess, all errors between λ and λ + μ, and the range of a draw: 1."""
    rounds, gap = 3, 12 * GRID
    rate = gap * STEPS // (4 * GRID * rounds)
    score = Reweighting(
        _ones(len(guess)), np.arange(len(guess)), near=0, gap=gap, guesses=(guess,) * rounds, rates=(rate,) * rounds
    )
    reach = score.reach(1, True).replace
    assert reach is not None
    return score, selection_range(reach, Fraction(1, STEPS * STEPS))


def _drawing(score: Reweighting, spread: Fraction) -> Play:
    def play(curator: Curator) -> float:
        return float(curator.select(score, spread)[0] == 0)

    return play


def _watching(guess: NDArray[np.float64], epsilon: Fraction, threshold: Fraction) -> Play:
    questions = list(_ones(12))[: len(guess)]

    def play(curator: Curator) -> float:
        watch = curator.above_threshold(threshold, epsilon)
        if any(watch.exceeds(questions[i], float(guess[i])) for i in range(1, len(guess))):
            return 0.0
        return float(watch.exceeds(questions[0], float(guess[0])))

    return play
