"""SmallDB, the book's Algorithm 4: of all databases of a few rows, draw one that answers all questions alike.

Some database of ln|Q|/α² rows answers every counting query to within α (a sample of the table does), and there are few
enough of them that the exponential mechanism finds one. The law is exact: databases are counted or enumerated, never
walked among.

Privacy: one selection, the row total, and the certificate.
Accuracy: Proposition 4.4 for the draw that really runs, with the exact number of databases in place of its bound
|X|^(ln|Q|/α²), a whole number of rows, and Lemma 4.3 as it stands before ln|Q| is rounded up; for replaced rows and a
public number of them. Theorem 4.5's sizes on request.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from conspectus.curator.curator import Curator
from conspectus.curator.nets import databases
from conspectus.data.domain import in_words
from conspectus.mechanisms.certificate import certify
from conspectus.mechanisms.mechanism import Claim, ErrorBound, Outcome, Problem, Refusal, SettingError, not_counting
from conspectus.mechanisms.total import SHARE, find_total
from conspectus.privacy.events import Event
from conspectus.queries.workload import Workload
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import public_sampler

from .net_draws import choose, net_error
from .signatures import Signatures, signatures
from .small_databases import QUICK, Method, SmallNet

FAILURE = 0.05
SIZES = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)
CITES = (
    "Dwork & Roth 2014, Algorithm 4, Proposition 4.4 and Theorem 4.5 (sizes rounded up)",
    "Blum, Ligett & Roth 2008",
)
_USUAL_ROWS = 10_000
USUAL_ALPHA = 0.1
LEAST_RANGE = Fraction(1, 1 << 40)


def sampling_error(queries: int, size: int) -> float:
    """The α of Lemma 4.3: some database of this many rows answers every query to within it.

    A sample of the table misses none by more with a probability above 0 where 2|Q|·exp(−2Mα²) is below 1.
    """
    return math.sqrt(math.log(2 * queries) / (2 * size)) * (1 + 1e-9)


def book_size(queries: int, alpha: float) -> int:
    """The size of Algorithm 4, ln|Q|/α², as a whole number of rows; Lemma 4.3 needs more than two queries."""
    return math.ceil(math.log(max(queries, 3)) / alpha**2)


def too_many(size: int, records: int) -> str:
    """Why a net is not drawn from: how many databases it has."""
    return (
        f"it would have to go through {in_words(databases(records, size))} databases of {size} rows over "
        f"{in_words(records)} records, and to count them otherwise takes longer than a minute, by what "
        "these questions have in common: ask fewer questions, or give a smaller size"
    )


def theorem_alpha(records: int, queries: int, *, epsilon: float, rows: int, failure: float = FAILURE) -> float:
    """The α of Theorem 4.5 (4.2), as printed: ((16 ln|X| ln|Q| + 4 ln(1/β))/(εn))^(1/3), where it is at most 1."""
    logs = math.log(max(records, 2)) * math.log(max(queries, 3))
    return math.cbrt((16 * logs + 4 * math.log(1 / failure)) / (epsilon * rows))


@dataclass(frozen=True, kw_only=True)
class SmallDb:
    """`size` rows, or the ⌈ln|Q|/alpha²⌉ of Algorithm 4; by default as many as make the expected error least.

    With `theorem` the size is that of Theorem 4.5. Records that no question tells apart are one record unless `merge`
    is off, which draws from the book's own range, more widely spread. `certificate` is the share of the budget that
    buys the bound; `public_seed` fixes which of the records that nobody tells apart are shown.
    """

    size: int | None = None
    alpha: float | None = None
    theorem: bool = False
    merge: bool = True
    certificate: float = 0.03
    public_seed: int | None = None

    name: ClassVar[str] = "small-db"

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= 4096:
            raise SettingError("size, the number of rows of the small database, lies between 1 and 4,096")
        if self.alpha is not None and not 0 < self.alpha < 1:
            raise SettingError("alpha, the error aimed at, lies strictly between 0 and 1")
        if not 0 <= self.certificate < 1:
            raise SettingError("certificate lies in [0, 1)")
        if self.public_seed is not None and self.public_seed < 0:
            raise SettingError("public_seed is 0 or above")
        if (self.size is not None) + (self.alpha is not None) + self.theorem > 1:
            raise SettingError("size, alpha and theorem=True each set the size: give one of them")

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        plan = self._plan(problem)
        if isinstance(plan, str):
            return Refusal(mechanism=self.name, reason=plan)
        net, method, _ = plan
        rows = problem.rows or _USUAL_ROWS
        worse = self._worse(problem, net, method)
        left = sampling_error(len(net.workload), net.size) * rows
        bound = None
        if problem.total_is_public and problem.rows:
            value = (left + worse) / rows
            bound = ErrorBound(value=value, statistic="max", probability=1 - FAILURE, theorem=CITES[0])
            if self.theorem and bound.vacuous:
                said = f"Theorem 4.5 promises an error of {value:.3g} here, which says nothing"
                return Refusal(mechanism=self.name, reason=f"{said}: leave theorem=True out")
        expected = expected_error(net, worse, rows)
        return Claim(
            mechanism=self.name,
            expected_max=expected,
            expected_mean=expected / 3,
            bound=bound,
            memory=net.signatures.truth.size * 8 + (1 << 26),
            citations=CITES,
            notes=(
                f"{net.size} rows, one of {in_words(net.mass)} databases over {in_words(sum(net.sizes))} records, "
                f"by {WAYS[method]}",
            ),
        )

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event] | None:
        return None

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        found = self._plan(problem)
        assert not isinstance(found, str)
        net, method, _ = found
        curator.count_ahead(net.workload)
        total, left = find_total(curator, problem)
        certificate_price = problem.cap * Fraction(self.certificate)
        draw = net.drawn(method, problem, total.divisor)
        rng = public_sampler(self.public_seed)
        member = choose(curator, problem, draw.net, left - certificate_price)
        synopsis = Rows(problem.workload.domain, net.codes(draw.counts(member, rng), rng), total)
        answers = synopsis.answer(problem.workload)
        bound = None
        if certificate_price:
            bound = certify(
                curator, problem, workload=problem.workload, answers=answers, total=total, price=certificate_price
            )
        parameters = {
            "size": net.size,
            "merge": self.merge,
            "method": method,
            "records": in_words(sum(net.sizes)),
            "databases": in_words(net.mass),
            "certificate": self.certificate,
        }
        return Outcome(synopsis=synopsis, answers=answers, total=total, certificate=bound, parameters=parameters)

    def _price(self, problem: Problem) -> Fraction:
        """What the draw may cost: all but the certificate and, where it is private, the total."""
        bought = 0 if problem.total_is_public else SHARE
        return problem.cap * (1 - Fraction(self.certificate) - bought)

    def _worse(self, problem: Problem, net: SmallNet, method: Method) -> float:
        coarse = net.coarse(method, problem, float(problem.rows or _USUAL_ROWS))
        price = self._price(problem)
        return net_error(problem, price, log_mass=net.log_mass, coarse=coarse, failure=FAILURE)

    def _plan(self, problem: Problem) -> tuple[SmallNet, Method, float] | str:
        """The net, the way to draw from it and the error expected; or why there is none. From public facts alone."""
        asked = problem.workload.distinct()
        refused = not_counting(problem)
        if refused is not None:
            return refused
        if self.theorem and not problem.total_is_public:
            return "Theorem 4.5 is for replaced rows and a public number of rows"
        if problem.selection(self._price(problem)) < LEAST_RANGE:
            return "its budget is too small to draw by: raise epsilon"
        classes = signatures(asked)
        if classes is None:
            return too_many(self.size or book_size(len(asked), self.alpha or USUAL_ALPHA), problem.cells)
        best: tuple[SmallNet, Method, float] | None = None
        for size in self._sizes(problem, asked, classes):
            net = SmallNet(asked, classes, size, self.merge)
            found = self._served(problem, net)
            if found is not None and (best is None or found[2] < best[2]):
                best = found
        if best is not None:
            return best
        size = self._sizes(problem, asked, classes)[0]
        return too_many(size, len(classes) if self.merge else classes.records)

    def _served(self, problem: Problem, net: SmallNet) -> tuple[SmallNet, Method, float] | None:
        rows = problem.rows or _USUAL_ROWS
        share = QUICK if self.size is None and self.alpha is None and not self.theorem else 1.0
        method = net.method(problem, self._price(problem), float(rows), share=share)
        if method is None:
            return None
        return net, method, expected_error(net, self._worse(problem, net, method), rows)

    def _sizes(self, problem: Problem, asked: Workload, classes: Signatures) -> Sequence[int]:
        if self.size is not None:
            return (self.size,)
        queries = len(asked)
        if self.alpha is not None:
            return (book_size(queries, self.alpha),)
        if not self.theorem:
            return SIZES
        records = len(classes) if self.merge else classes.records
        spread = float(problem.selection(self._price(problem))) / problem.max_rows
        alpha = theorem_alpha(records, queries, epsilon=spread, rows=problem.rows or _USUAL_ROWS)
        return (book_size(queries, min(alpha, 1.0) / 2),)


WAYS: dict[Method, str] = {
    "laminar": "counting along nested and disjoint questions",
    "enumeration": "enumeration",
    "vectors": "counting their answers",
}


def expected_error(net: SmallNet, worse: float, rows: float) -> float:
    """Typical, from measurements: what the best database of so few rows leaves, and a part of what the draw may add."""
    logs = math.sqrt(math.log(2 * len(net.workload)))
    left = min(0.5 * sampling_error(len(net.workload), net.size), 0.4 * logs / net.size)
    return left * rows + 0.2 * worse
