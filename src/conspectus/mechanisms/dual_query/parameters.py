"""DualQuery's settings, and the plan that public facts make of them. Nothing here depends on the table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from conspectus.mechanisms.mechanism import CannotServe, Problem, not_counting, refuse_for
from conspectus.mechanisms.settings import LEAST_SHARE, SHARE, SettingError, check_settings, is_share
from conspectus.mechanisms.total import left_after_total
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.whole_numbers import MOST_SEED, MOST_TURNS, SEED

from .initial_rows import RULES, single_width
from .oracles import TIME_LIMIT, available
from .schedule import MOST_DRAWS, MOST_ROUNDS, Schedule, Shape, fit, lay_out
from .theorem import LEAST_ACCURACY, theorem_4_6

ORACLES = ("search", "exact")
MOST_CODES = 1 << 29
"""Codes of synthetic rows that are held, rows times columns."""

ETA = 2.0  # chosen on Adult and KDD Cup 99, by `python -m bench dual_query`
"""The step. From 1 to 4 the error is within a third of the least."""

FEW_COLUMNS = 64  # chosen on Adult, KDD Cup 99 and made tables, by `python -m bench dual_query`
"""Up to so many columns multiplicities are fitted by default: what is measured of a wider table says little more."""

WIDE_COLUMNS = 256  # chosen on user–item tables of 285 to 41,000 columns, by `python -m bench wide`
"""From so many columns on a row is mostly what it started from."""

WIDE_DRAWS = 100  # chosen on user–item tables of 285 to 41,000 columns, by `python -m bench wide`
REWEIGHTING = 0.2  # chosen on Adult and KDD Cup 99, by `python -m bench dual_query`
PARITY_RESTARTS = 64  # chosen on NLTCS, by `python -m bench dual_query`
MARGINAL_NOISE = 0.01
"""The noise on a one-way marginal that is aimed at, in fractions of the rows."""


@dataclass(frozen=True, kw_only=True)
class DualQuerySettings:
    """The settings of `DualQuery`, where each is explained, and what they must keep."""

    rounds: int | None = None
    draws: int | None = None
    eta: float | None = None
    accuracy: float | None = None
    decay: float = 0.0
    responses: int | None = None
    restarts: int | None = None
    oracle: str = "search"
    seconds: float = TIME_LIMIT
    initial: str = "marginals"
    marginals: float | None = None
    reweighting: float | None = None
    certificate: float = 0.02
    public_seed: int | None = None
    untouched: str | None = None

    def __post_init__(self) -> None:
        if self.untouched is not None:  # the former name: from here on there is `initial` alone
            if self.initial not in ("marginals", self.untouched):
                raise SettingError("untouched is the former name of initial: give initial alone")
            object.__setattr__(self, "initial", self.untouched)
            object.__setattr__(self, "untouched", None)
        counted = (self.rounds, self.draws, self.responses, self.restarts)
        few = (self.rounds or 1) <= MOST_ROUNDS and (self.draws or 1) <= MOST_DRAWS and (self.responses or 1) <= 1024
        shares = (self.marginals or 0.0, self.reweighting or 0.0, self.certificate)
        apart = all(not share or is_share(share) for share in shares) and self.marginals != 0
        chosen = self.rounds is not None or self.draws is not None or self.eta is not None or self.decay
        check_settings(
            (
                all(number is None or 1 <= number <= MOST_TURNS for number in counted),
                f"rounds, draws, responses and restarts lie between 1 and {MOST_TURNS:,}",
            ),
            (few, f"rounds is at most {MOST_ROUNDS}, draws at most {MOST_DRAWS}, responses at most 1024"),
            (self.eta is None or 2**-10 <= self.eta <= 64, "eta lies between 1/1024 and 64"),
            (
                -1 <= self.decay <= 1 and 0 < self.seconds < math.inf,
                "decay lies between -1 and 1, seconds above 0",
            ),
            (
                self.oracle in ORACLES and self.initial in RULES,
                f"oracle is one of {', '.join(ORACLES)}; initial one of {', '.join(RULES)}",
            ),
            (apart, f"marginals {SHARE}, and each of reweighting and certificate does so or is 0"),
            (
                sum(shares) <= 1 - LEAST_SHARE,
                "marginals, reweighting and certificate leave a part of the budget",
            ),
            (self.public_seed is None or 0 <= self.public_seed <= MOST_SEED, SEED),
            (
                self.accuracy is None or LEAST_ACCURACY <= self.accuracy < 1,
                f"accuracy lies from {LEAST_ACCURACY:g} to below 1",
            ),
            (
                self.accuracy is None or not chosen,
                "accuracy sets rounds, draws and eta itself: leave them out, and decay",
            ),
            (
                self.oracle != "exact" or (self.responses or 1) == 1,
                "the exact oracle finds one row a round: leave responses out",
            ),
        )

    @property
    def theorem(self) -> bool:
        """Whether T, s and η are those of Theorem 4.6."""
        return self.accuracy is not None


@dataclass(frozen=True, kw_only=True)
class DualQueryPlan:
    """What is decided before the first act. `marginals`, `reweighting` and `certificate` are shares of the budget.

    A share of 0 leaves its step out. `allowed` is what all draws may cost together. `schedule` is for the rows that are
    planned for; where their number is bought, another is made for it (`schedule_of`).
    """

    marginals: float
    reweighting: float
    responses: int
    restarts: int
    allowed: Fraction
    schedule: Schedule


def plan_of(settings: DualQuerySettings, problem: Problem) -> DualQueryPlan:
    """The plan, or `CannotServe`."""
    refuse_for(not_counting(problem))
    if settings.oracle == "exact" and not available():
        raise CannotServe('its exact oracle needs OR-Tools: install "conspectus[exact]", or leave oracle="exact" out')
    marginals = _marginals(settings, problem) if settings.initial == "marginals" else 0.0
    reweighting = _reweighting(settings, problem, marginals)
    allowed = left_after_total(problem, settings.certificate, reweighting, marginals)
    responses = _responses(settings, problem)
    schedule = _schedule(settings, problem, allowed=allowed, responses=responses, total=problem.planned_rows)
    return DualQueryPlan(
        marginals=marginals,
        reweighting=reweighting,
        responses=responses,
        restarts=_restarts(settings, problem),
        allowed=allowed,
        schedule=schedule,
    )


def schedule_of(settings: DualQuerySettings, problem: Problem, plan: DualQueryPlan, total: int) -> Schedule:
    """The schedule for a table of `total` rows: the planned one, or another where the number of rows was bought."""
    if plan.schedule.total == total:
        return plan.schedule
    try:
        return _schedule(settings, problem, allowed=plan.allowed, responses=plan.responses, total=total)
    except CannotServe:
        # A bought number of rows may be too small for a second round. The first one is free.
        rates = Shape(decay=settings.decay, responses=plan.responses).rates(settings.eta or ETA, 1)
        first = lay_out(problem, total=total, rates=rates, draws=(_draws(settings, problem),))
        assert first is not None
        return first


def _schedule(
    settings: DualQuerySettings, problem: Problem, *, allowed: Fraction, responses: int, total: int
) -> Schedule:
    """Rounds, draws and step from the theorem, as they were given, or fitted to the budget; or `CannotServe`."""
    if allowed <= 0:
        raise CannotServe("its marginals, reweighting and certificate leave nothing for the draws: lower these shares")
    shape = Shape(decay=settings.decay, responses=responses)
    if settings.accuracy is not None:
        wanted = theorem_4_6(
            settings.accuracy,
            candidates=2 * len(problem.workload),
            log_universe=sum(math.log(size) for size in problem.workload.domain.sizes),
        )
        found = None
        if wanted.rounds <= 8 * MOST_ROUNDS:
            rates = shape.rates(wanted.eta, wanted.rounds)
            found = lay_out(problem, total=total, rates=rates, draws=(wanted.draws,) * wanted.rounds)
        if found is None or found.price > allowed:
            numbers = f"{wanted.rounds:,} rounds of {wanted.draws:,} draws"
            raise CannotServe(
                f"an accuracy of {settings.accuracy:g} takes {numbers}, more than the budget allows: leave it out"
            )
        return found
    if settings.rounds is not None and settings.draws is not None and settings.eta is not None:
        rates = shape.rates(settings.eta, settings.rounds)
        found = lay_out(problem, total=total, rates=rates, draws=(settings.draws,) * settings.rounds)
        if found is None or found.price > allowed:
            raise CannotServe("these rounds, draws and eta cost more than the budget: leave one of them out")
        return found
    found = fit(
        problem,
        allowed,
        total=total,
        shape=shape,
        eta=settings.eta or ETA,
        draws=_draws(settings, problem),
        rounds=settings.rounds,
        fixed_draws=settings.draws is not None,
        fixed_eta=settings.eta is not None,
    )
    if found is None:
        raise CannotServe("its budget is too small to draw questions by: raise epsilon")
    return found


def _marginals(settings: DualQuerySettings, problem: Problem) -> float:
    """The share of the one-way marginals: enough for a hundredth of the rows, between a fiftieth and a half."""
    if settings.marginals is not None:
        return settings.marginals
    noise = MARGINAL_NOISE * problem.planned_rows / problem.max_rows
    width = single_width(problem.workload)
    needed = width / noise if problem.currency == "pure" else width / (2 * noise**2)
    return min(0.5, max(0.02, needed / float(problem.cap)))


def _reweighting(settings: DualQuerySettings, problem: Problem, marginals: float) -> float:
    """The share of the counts that multiplicities are fitted to: a fifth for tables of few columns, else nothing."""
    if settings.reweighting is not None:
        return settings.reweighting
    if settings.theorem:  # it is about the rows as they were played
        return 0.0
    few = len(problem.workload.columns) <= FEW_COLUMNS
    return REWEIGHTING if few and settings.certificate + marginals <= 0.6 else 0.0


def _draws(settings: DualQuerySettings, problem: Problem) -> int:
    """s: 25 for each column that is asked about, between 50 and 2,000; few where rows of a wide table start well.

    A draw bends a row towards one question. Where the row started from marginals, or from the first codes of a sparse
    table, many early draws spoil more than they mend.
    """
    columns = len(problem.workload.columns)
    if columns > WIDE_COLUMNS and settings.initial != "uniform":
        return settings.draws or WIDE_DRAWS
    return settings.draws or max(50, min(2000, 25 * columns))


def _responses(settings: DualQuerySettings, problem: Problem) -> int:
    """Rows a round: 16 by default, fewer where the table is so wide that 256 rounds of them would not be held."""
    if settings.oracle == "exact":
        return 1
    return settings.responses or max(1, min(16, MOST_CODES // (len(problem.workload.domain) * 256)))


def _restarts(settings: DualQuerySettings, problem: Problem) -> int:
    """A climb among parities gets stuck early: 64 of them find the best row nearly always."""
    parities = any(isinstance(block, Parities | ParityList) for block in problem.workload.blocks)
    return settings.restarts or (PARITY_RESTARTS if parities else 1)
