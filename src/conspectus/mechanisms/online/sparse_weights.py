"""Sparse multiplicative weights: the online loop for questions that list a few records of an unbounded universe.

Blum and Roth's Algorithm 1, SMW(D^SMW = (D, h, ind), Q, Â) for questions of at most m records, with η = α/2 (here
4α, which needs an eighth of the updates, and so fewer variables); it is the update algorithm U of OnlineIC (`loop.py`):

    at first: s variables of weight 1/s, and no record has one
        s is the smallest integer with s/(ln s + 1) ≥ 4m/α²     `theorem.sparse_variables`; here ≥ m/2α²
    for all x with Q(x) > 0 and h(x) = ∅: h(x) ← ind, ind ← ind + 1, or FAILURE if ind > s
    for all x with Q(x) > 0: D[h(x)] ← D[h(x)]·exp(±η·Q(x))     − if Â < Q(D^SMW), else +; `SparseGuess._step`
    D[i] ← D[i] / Σ_j D[j]

and its Definition 3.4, the value of a question:

    Q(D^SMW) = Σ_{x: h(x) ≠ ∅} Q(x)·D[h(x)] + Σ_{x: h(x) = ∅} Q(x)·D[ind]       `SparseGuess.of`

    paper        here                                  paper   here
    s            `SparseGuess._size`                   m       `SparseMw.sparsity`
    D[h(x)]      `SparseGuess._weights`, by record     Q(x)    the shares of `listed_records`
    Σ_j D[j]     `SparseGuess._mass`                   ind     1 + the number of records that have a weight

All free variables have the same weight. So only the records with a variable are kept, and a question costs as much as
it lists records, however large s and the universe are. Questions are weighted lists of records, or conjunctions, whose
records are listed when they are asked. With free parameters a surprise refits the weights to all that was measured.

Privacy: composes the row total and the loop; the rest post-processes.
Accuracy: at most T(α) = ln s/2α² updates of level α, and a variable is left for every record (`theorem.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.mechanisms.iterative import multiplicative_rate
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.mechanisms.settings import check_settings
from conspectus.privacy.events import Noise
from conspectus.queries.listed_records import Listed, listed_records
from conspectus.queries.workload import Workload
from conspectus.synopses.record_weights import RecordWeights
from conspectus.synopses.synopsis import Total

from . import claim, theorem
from .mechanism import OnlineIC
from .parameters import OnlinePlan
from .priming import Priming

_LONGEST_STEP = 60.0
_SWEEPS, _STILL = 10, 1e-3


class SparseGuess:
    """D^SMW: the weights of the records that have a variable. The other variables, of `size`, are free and weigh 1.

    Weights are kept unnormalised with their sum, so that an update touches the records that it lists and no other.
    `rate` is η, or None for weights that are refitted to all that was measured.
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
        """D[ind]: the weight of a variable that no record has yet."""
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
            self._step(listed, answer, self._rate)
        else:
            near = min(law.scale / self._total.divisor, 0.25)
            self._measured.append((listed, min(max(answer, near), 1 - near)))
            self._refit()

    def _step(self, listed: Listed, answer: float, rate: float) -> None:
        """Algorithm 1: one step of η towards the answer."""
        before = self._found(listed[0])
        guess = float((listed[1] * before).sum()) / self._mass
        self._move(listed, before, rate if answer >= guess else -rate)

    def _refit(self) -> None:
        """Each step meets one answer and disturbs the others; in turns they come to agree with all of them."""
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
        """D[h(x)] ← D[h(x)]·exp(step·Q(x)) for all x that are listed, which have a variable from then on."""
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
class SparseMw(OnlineIC):
    """Sparse multiplicative weights, for sessions about listed records of a universe of any size.

    It answers weighted lists of records (`cs.sparse`), and conjunctions that few records satisfy. Memory and time grow
    with the records that questions list, never with the universe.

    Args:
        sparsity: The number of records that one question may list, up to 1,048,576.
        hits: How many surprises are paid for.
        threshold: A guess that is wrong by more than this fraction of the rows is a surprise.
        measuring: The share of a hit's price that buys its measured answer, between 0 and 1. The rest finds the hit.
        theorem: Take the last three from Theorem 3.5 of Blum & Roth and the book's Theorems 5.13 to 5.15. Needs a
            public number of rows.

    Example:
        >>> import conspectus as cs
        >>> table = cs.open_records(["tea"] * 700 + ["milk"] * 300)
        >>> mechanism = cs.mechanisms.SparseMw(sparsity=4, hits=2)
        >>> with cs.open_session(table, epsilon=20.0, questions=50, mechanism=mechanism) as session:
        ...     answer = session.ask(cs.sparse([["tea"]]))
        >>> answer.basis, abs(answer.fraction - 0.7) < 0.1
        ('measured', True)
    """

    sparsity: int = 256

    name: ClassVar[str] = "sparse-mw"
    citations: ClassVar[tuple[str, ...]] = (*theorem.CITES, "Blum & Roth 2013, Theorems 3.5 and 3.8")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings((1 <= self.sparsity <= 1 << 20, "sparsity lies between 1 and 1,048,576 records"))

    def refuses(self, problem: SessionProblem) -> str | None:
        return None

    @property
    def _hits(self) -> int:
        return self.hits or claim.sparse().hits

    def memory(self, problem: SessionProblem) -> int:
        return 200 * self.sparsity * self._hits

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        return theorem.sparse_updates(alpha, self.sparsity)

    def printed_updates(self, problem: SessionProblem, alpha: float) -> float:
        return theorem.book_sparse_updates(alpha, self.sparsity)

    def typical(self, problem: SessionProblem, rows: float, priming: Priming | None) -> claim.Typical:
        return claim.sparse()

    def expected(self, problem: SessionProblem, plan: OnlinePlan) -> tuple[float, float]:
        return claim.sparse_errors(problem, plan)

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> SparseGuess:
        if alpha is None:
            # Variables for all that hits can list, and so many that unknown records of one question weigh a row.
            size = self.sparsity * max(2 * self._hits, math.ceil(total.divisor)) + 1
            return SparseGuess(problem, total, size=size, sparsity=self.sparsity, rate=None)
        size = theorem.sparse_variables(self.sparsity, alpha)
        return SparseGuess(problem, total, size=size, sparsity=self.sparsity, rate=multiplicative_rate(alpha))
