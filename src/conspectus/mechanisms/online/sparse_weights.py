"""Sparse multiplicative weights: the online loop for questions that list a few records of an unbounded universe.

Blum and Roth's Definition 3.4 and Algorithm 1: s variables of equal weight, and a hash table that gives a variable to a
record when a surprise first lists it. A record without one is answered by the weight of a variable that is still free,
which all have in common; so only the records with a variable are kept, and a question costs as much as it lists
records, however large s and the universe are. Questions are weighted lists of records, or conjunctions, whose records
are listed when they are asked. With free parameters a surprise refits the weights to all that was measured so far.

Privacy: composes the row total and the loop; the rest post-processes.
Accuracy: with s the smallest integer such that s/(ln s + 1) ≥ 4m/α², for questions of at most m records, there are at
most T(α) = 4 ln s/α² updates of level α at rate α/2, and a variable is left for every record. (The printed proof drops
the weight of records that never get a variable; spread over the free variables it gives this count.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.mechanisms.mechanism import SettingError
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.privacy.events import Noise
from conspectus.queries.listed_records import Listed, listed_records
from conspectus.queries.workload import Workload
from conspectus.synopses.record_weights import RecordWeights
from conspectus.synopses.synopsis import Total

from .loop import CITES
from .parameters import OnlineSettings

_LONGEST_STEP = 60.0
_SWEEPS, _STILL = 10, 1e-3


def variables(sparsity: int, alpha: float) -> int:
    """The smallest s with s/(ln s + 1) ≥ 4m/α²."""
    wanted = 4 * sparsity / alpha**2
    low, high = 1, 2
    while high / (math.log(high) + 1) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle / (math.log(middle) + 1) < wanted else (low, middle)
    return high


def updates(alpha: float, sparsity: int) -> float:
    """T(α) = 4 ln s/α²."""
    return 4 * math.log(variables(sparsity, alpha)) / alpha**2


class SparseGuess:
    """The hash table: weights of the records that have a variable, beside `size` − so many free ones of weight 1.

    Weights are kept unnormalised with their sum, so that an update touches the records that it lists and no other.
    """

    def __init__(self, problem: SessionProblem, total: Total, *, size: int, sparsity: int, rate: float | None) -> None:
        self._domain = problem.workload.domain
        self._total = total
        self._size = size
        self._sparsity = sparsity
        self._rate = rate
        self._weights: dict[int, float] = {}
        self._mass = float(size)
        self._measured: list[tuple[Listed, float]] = []

    def of(self, query: Workload) -> float:
        addresses, shares = listed_records(query, self._sparsity)
        if not self._weights:
            return min(float(shares.sum()) / self._size, 1.0)
        return min(float((shares * self._found(addresses)).sum()) / self._mass, 1.0)

    @property
    def _free(self) -> float:
        return 1.0 if len(self._weights) < self._size else 0.0

    def _found(self, addresses: NDArray[np.uint64]) -> NDArray[np.float64]:
        get, free = self._weights.get, self._free
        return np.array([get(address, free) for address in addresses.tolist()])

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        listed = listed_records(query, self._sparsity)
        new = sum(address not in self._weights for address in listed[0].tolist())
        if not len(listed[0]) or new > self._size - len(self._weights):
            return  # nothing is listed, or no variable is left, which cannot happen within the theorem's count
        answer = noisy / self._total.divisor
        if self._rate is not None:
            before = self._found(listed[0])
            guess = float((listed[1] * before).sum()) / self._mass
            self._move(listed, before, self._rate if answer >= guess else -self._rate)
            return
        near = min(law.scale / self._total.divisor, 0.25)
        self._measured.append((listed, min(max(answer, near), 1 - near)))
        # Each step meets one answer and disturbs the others; in turns they come to agree with all of them.
        for _ in range(_SWEEPS):
            farthest = 0.0
            for known, wanted in reversed(self._measured):
                before = self._found(known[0])
                step = self._meeting(known[1], before, wanted)
                self._move(known, before, step)
                farthest = max(farthest, abs(step))
            if farthest < _STILL:
                break

    def _move(self, listed: Listed, before: NDArray[np.float64], step: float) -> None:
        addresses, shares = listed
        after = before * np.exp(step * shares)
        self._mass += float((after - before).sum())
        self._weights.update(zip(addresses.tolist(), after.tolist()))

    def _meeting(self, shares: NDArray[np.float64], before: NDArray[np.float64], answer: float) -> float:
        """The step after which the guess is the answer: the guess grows with the step, up to the largest share."""
        rest = self._mass - float(before.sum())
        if shares[0] == shares[-1] and (shares == shares[0]).all():
            share = float(shares[0])
            wanted = answer * rest / max(float(before.sum()) * (share - answer), 1e-300) if share > answer else math.inf
            return min(max(math.log(max(wanted, 1e-300)) / share, -_LONGEST_STEP), _LONGEST_STEP)
        low, high = -_LONGEST_STEP, _LONGEST_STEP
        for _ in range(50):
            middle = (low + high) / 2
            moved = before * np.exp(middle * shares)
            short = float((shares * moved).sum()) < answer * (rest + float(moved.sum()))
            low, high = (middle, high) if short else (low, middle)
        return (low + high) / 2

    def synopsis(self) -> RecordWeights:
        keys = np.array(sorted(self._weights), dtype=np.uint64)
        weights = np.array([self._weights[key] for key in keys.tolist()]) / self._mass
        return RecordWeights(self._domain, keys, weights, self._free / self._mass, self._sparsity, self._total)


@dataclass(frozen=True, kw_only=True)
class SparseMw(OnlineSettings):
    """`sparsity` is the number of records that one question may list; the others say how surprises are found."""

    sparsity: int = 256

    name: ClassVar[str] = "sparse-mw"
    citations: ClassVar[tuple[str, ...]] = (*CITES, "Blum & Roth 2013, Theorems 3.5 and 3.8")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.sparsity <= 1 << 20:
            raise SettingError("sparsity lies between 1 and 1,048,576 records")

    def refuses(self, problem: SessionProblem) -> str | None:
        return None

    def memory(self, problem: SessionProblem) -> int:
        return 200 * self.sparsity * (self.hits or 20)

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        return updates(alpha, self.sparsity)

    def usual(self, problem: SessionProblem, left: Fraction, rows: float) -> tuple[int, float]:
        """Lists of few records hold few rows: hardly a surprise is to be expected of them."""
        return 20, 0.0

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> SparseGuess:
        if alpha is None:
            # Variables for all that hits can list, and so many that unknown records of one question weigh a row.
            hits = self.hits or self.usual(problem, Fraction(0), total.divisor)[0]
            size = self.sparsity * max(2 * hits, math.ceil(total.divisor)) + 1
            return SparseGuess(problem, total, size=size, sparsity=self.sparsity, rate=None)
        size = variables(self.sparsity, alpha)
        return SparseGuess(problem, total, size=size, sparsity=self.sparsity, rate=alpha / 2)
