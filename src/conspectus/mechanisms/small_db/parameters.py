"""The settings of SmallDB and of the net mechanism, and the plans that public facts make of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from conspectus.curator.nets import databases
from conspectus.data.domain import in_words
from conspectus.mechanisms.mechanism import CannotServe, ErrorBound, Problem, not_counting, refuse_for
from conspectus.mechanisms.settings import SHARE, check_settings, is_share
from conspectus.mechanisms.total import left_after_total
from conspectus.synopses.synopsis import CannotAnswer
from conspectus.whole_numbers import MOST_SEED, SEED

from .claim import expected_error
from .net_draws import PublicNet, answers_of, coarseness
from .plan import NetPlan, SmallDbPlan
from .signatures import Signatures, signatures
from .small_databases import QUICK, SmallNet
from .theorem import NET_BOOK, SMALL_DB_BOOK, net_error, sampling_error, theorem_alpha, theorem_size

SIZES = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)
"""The sizes among which the default chooses."""

USUAL_ALPHA = 0.1
MOST_ROWS = 1 << 16
"""The largest size that a theorem may ask for."""

LEAST_RANGE = Fraction(1, 1 << 40)
MOST_GUESSES = 1 << 25
"""Members times questions: three arrays of so many numbers are held."""


@dataclass(frozen=True, kw_only=True)
class SmallDbSettings:
    """The settings of `SmallDb`, where each is explained, and what they must keep."""

    size: int | None = None
    alpha: float | None = None
    theorem: bool = False
    merge: bool = True
    certificate: float = 0.03
    public_seed: int | None = None

    def __post_init__(self) -> None:
        given = (self.size is not None) + (self.alpha is not None) + self.theorem
        check_settings(
            (
                self.size is None or 1 <= self.size <= 4096,
                "size, the number of rows of the small database, lies between 1 and 4,096",
            ),
            (self.alpha is None or is_share(self.alpha), f"alpha, the error aimed at, {SHARE}"),
            (is_share(self.certificate, or_nothing=True), f"certificate is 0 or {SHARE}"),
            (self.public_seed is None or 0 <= self.public_seed <= MOST_SEED, SEED),
            (given <= 1, "size, alpha and theorem=True each set the size: give one of them"),
        )

    @property
    def fixed(self) -> bool:
        """Whether a setting fixes the size."""
        return self.size is not None or self.alpha is not None or self.theorem


@dataclass(frozen=True, kw_only=True)
class NetSettings:
    """The settings of `NetMechanism`, where each is explained, and what they must keep."""

    net: object = None
    alpha: float | None = None
    certificate: float = 0.03

    def __post_init__(self) -> None:
        check_settings(
            (
                self.net is None or isinstance(self.net, PublicNet),
                "net takes a public net: make it with cs.net(schema, [table, …])",
            ),
            (
                self.alpha is None or 0 <= self.alpha < 1,
                "alpha, how near a member of the net is to any table, lies in [0, 1)",
            ),
            (is_share(self.certificate, or_nothing=True), f"certificate is 0 or {SHARE}"),
        )


def small_db_plan(settings: SmallDbSettings, problem: Problem) -> SmallDbPlan:
    """Of the sizes that can be drawn in time the one that expects the least error, or `CannotServe`."""
    refuse_for(not_counting(problem))
    if settings.theorem and not problem.total_is_public:
        raise CannotServe("Theorem 4.5 is for replaced rows and a public number of rows")
    price = _draw_price(problem, settings.certificate)
    asked = problem.workload.distinct()
    classes = signatures(asked)
    if classes is None:
        raise _too_many(settings.size or _size_for(len(asked), settings.alpha or USUAL_ALPHA), problem.cells)
    sizes = _sizes(settings, problem, price, queries=len(asked), classes=classes)
    tried = [_served(settings, problem, price, SmallNet(asked, classes, size, settings.merge)) for size in sizes]
    served = [plan for plan in tried if plan is not None]
    if not served:
        raise _too_many(sizes[0], _records(settings, classes))
    best = min(served, key=lambda plan: plan.expected)
    if settings.theorem and best.bound is not None and best.bound.vacuous:
        said = f"Theorem 4.5 promises an error of {best.bound.value:.3g} here, which says nothing"
        raise CannotServe(f"{said}: leave theorem=True out")
    return best


def _served(settings: SmallDbSettings, problem: Problem, price: Fraction, net: SmallNet) -> SmallDbPlan | None:
    """The plan with this net; None where no exact way to draw from it is quick enough."""
    rows, queries = problem.planned_rows, len(net.workload)
    method = net.method(problem, price, float(rows), share=1.0 if settings.fixed else QUICK)
    if method is None:
        return None
    coarse = net.coarse(method, problem, float(rows))
    worse = net_error(problem, price, log_mass=math.log(net.mass), coarse=coarse)
    proved = bool(problem.total_is_public and problem.rows)
    best = sampling_error(queries, net.size)
    return SmallDbPlan(
        net=net,
        method=method,
        price=price,
        expected=expected_error(queries, net.size, worse=worse, rows=rows),
        bound=ErrorBound(value=(best * rows + worse) / rows, theorem=SMALL_DB_BOOK) if proved else None,
    )


def _sizes(
    settings: SmallDbSettings, problem: Problem, price: Fraction, *, queries: int, classes: Signatures
) -> Sequence[int]:
    """The sizes to try: the one that a setting fixes, or all of `SIZES`."""
    if settings.size is not None:
        return (settings.size,)
    if settings.alpha is not None:
        return (_size_for(queries, settings.alpha),)
    if not settings.theorem:
        return SIZES
    epsilon = float(problem.selection(price)) / problem.max_rows
    rows = problem.planned_rows
    alpha = theorem_alpha(_records(settings, classes), queries, epsilon=epsilon, rows=rows)
    return (_size_for(queries, min(alpha, 1.0) / 2),)


def _size_for(queries: int, alpha: float) -> int:
    """The size that the theorem takes for this error; `CannotServe` where nobody could write such a database down."""
    size = theorem_size(queries, alpha)
    if size > MOST_ROWS:
        said = f"for an error of {alpha:.3g} it draws databases of {size:,} rows, more than {MOST_ROWS:,}"
        raise CannotServe(f"{said}: give a larger alpha, or a size")
    return size


def _records(settings: SmallDbSettings, classes: Signatures) -> int:
    """|X|: all records of the columns read, or those alone that the questions tell apart."""
    return len(classes) if settings.merge else classes.records


def _too_many(size: int, records: int) -> CannotServe:
    """Why a net is not drawn from: how many databases it has."""
    return CannotServe(
        f"it would have to go through {in_words(databases(records, size))} databases of {size} rows over "
        f"{in_words(records)} records, and to count them otherwise takes longer than a minute, by what "
        "these questions have in common: ask fewer questions, or give a smaller size"
    )


def net_plan(settings: NetSettings, problem: Problem) -> NetPlan:
    """The guesses and what a draw of one proves, or `CannotServe`."""
    net, workload = settings.net, problem.workload
    if not isinstance(net, PublicNet):
        raise CannotServe("it draws from public guesses of yours: give net=cs.net(schema, [table, …])")
    if net.domain != workload.domain:
        raise CannotServe("the net was made from another schema: make it with cs.net from the schema of this table")
    if len(net) * len(workload) > MOST_GUESSES:
        made = f"{len(net):,} members for {len(workload):,} questions make too many guesses"
        raise CannotServe(f"{made} (limit {MOST_GUESSES:,}): give fewer of either")
    price = _draw_price(problem, settings.certificate)
    try:
        guesses = answers_of(net, workload)
    except CannotAnswer as why:
        raise CannotServe(f"a member of the net cannot answer these questions: {why}") from why
    rows = counted_rows(problem)
    worse = net_error(problem, price, log_mass=math.log(len(net)), coarse=coarseness(float(rows)))
    proved = problem.denominator and (problem.total_is_public or workload.denominator)
    bound = None
    if settings.alpha is not None and proved:
        bound = ErrorBound(value=settings.alpha + worse / rows, theorem=NET_BOOK)
    return NetPlan(net=net, guesses=guesses, price=price, worse=worse, bound=bound)


def counted_rows(problem: Problem) -> int:
    """What a share of one amounts to in counts."""
    return problem.planned_denominator


def _draw_price(problem: Problem, certificate: float) -> Fraction:
    """What the draw may cost: all but the certificate and, where it is private, the total."""
    price = left_after_total(problem, certificate)
    if problem.selection(price) < LEAST_RANGE:
        raise CannotServe("its budget is too small to draw by: raise epsilon")
    return price
