"""The parameters of boosting: settings and public facts become a `BoostingPlan`, or the reason why they cannot.

A setting that is left out gets its value here, from public facts alone. `theorem=True` takes all of them from Theorem
6.1, see `theorem.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction

from conspectus.mechanisms.iterative import Candidates
from conspectus.mechanisms.mechanism import CannotServe, Problem, expected_size, no_histogram, not_counting, refuse_for
from conspectus.mechanisms.settings import SHARE, check_settings, is_share
from conspectus.mechanisms.total import left_after_total
from conspectus.synopses.median_ensemble import MOST_MEMBERS
from conspectus.whole_numbers import MOST_SEED, MOST_TURNS, SEED

from .first_sample import first_size
from .generators import MOST_ENTRIES, few_tables, most_tables
from .own_generator import OwnGenerator
from .reweighting import DrawPlan, growing_rates, plan_sampling, unclipped_rates
from .row_search import ANCHOR, usual_sample
from .theorem import TheoremParameters, check_left_out, theorem_parameters

ROUNDS, GROWTH = 7, 1.6
"""With a history: chosen on NLTCS, 3-way and 5-way marginals at three budgets."""

FRESH_ROUNDS = 3
"""Without a history: every round needs a sample as large as the first one."""

ROW_ROUNDS = 16
"""With synthetic rows: chosen on 20,000 functions of Adult."""

MISSED = 50
"""Functions that the first sample leaves out, for a round beyond two: chosen on 60 to 245 functions of 1,000 rows."""

SELECTION, ROW_SELECTION = 0.25, 0.6
"""The share of the budget that draws cost, for histograms and for synthetic rows."""

GENERATORS = ("entropy", "syntheticizer", "brute", "rows")
OWN = "own"
AGGREGATES = ("weighted", "median")
_FREE = ("theorem", "certificate", "public_seed")
"""What theorem=True leaves to its caller."""


@dataclass(frozen=True, kw_only=True)
class BoostingSettings:
    """The settings of `Boosting`, which says what each of them means."""

    theorem: bool = False
    generator: str | OwnGenerator | None = None
    history: bool = True
    rounds: int | None = None
    first: int | None = None
    draws: int | None = None
    selection: float | None = None
    growth: float | None = None
    aggregate: str | None = None
    certificate: float = 0.04
    evaluations: int = 100
    ridge: float = 1.0
    public_seed: int | None = None

    def __post_init__(self) -> None:
        counted = (number for number in (self.rounds, self.first, self.draws, self.evaluations) if number is not None)
        known = callable(self.generator) or self.generator in (None, *GENERATORS)
        shares = self.selection is None or is_share(self.selection)
        shares = shares and is_share(self.certificate, or_nothing=True)
        fitting = (self.growth is None or 1 <= self.growth <= 4) and 0 < self.ridge < math.inf
        check_settings(
            (
                all(1 <= number <= MOST_TURNS for number in counted),
                f"rounds, first, draws and evaluations lie between 1 and {MOST_TURNS:,}",
            ),
            ((self.rounds or 1) <= MOST_MEMBERS, f"rounds is at most {MOST_MEMBERS}"),
            (shares, f"selection {SHARE}, and certificate does so or is 0"),
            (known, f"generator is one of {', '.join(GENERATORS)}, or a function of a noisy sample"),
            (self.aggregate in (None, *AGGREGATES), f"aggregate is one of {', '.join(AGGREGATES)}"),
            (fitting, "growth lies between 1 and 4, ridge above 0"),
            (self.public_seed is None or 0 <= self.public_seed <= MOST_SEED, SEED),
        )
        if self.theorem:
            usual = {field.name: field.default for field in fields(self) if field.name not in _FREE}
            check_left_out({name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]})
        if self.aggregate is None:
            object.__setattr__(self, "aggregate", "median" if self.theorem else "weighted")


@dataclass(frozen=True, kw_only=True, eq=False)
class BoostingPlan:
    """One run laid out in advance, from public facts: what can be drawn, how, and what each act may cost.

    `first` questions are sampled in the first round and `sampling.draws` in the later ones; `prices` are those of the
    rounds' measurements, `anchor` that of what the generator measures once, before its first sample. With a `history`
    a generator goes on from all that was measured, and no round draws what an earlier one did. `certificate` is the
    price of the two certificates. `theorem` holds what Theorem 6.1 fixed, where it did.
    """

    candidates: Candidates
    first: int
    sampling: DrawPlan
    prices: tuple[Fraction, ...]
    generator: str
    certificate: Fraction
    anchor: Fraction = Fraction(0)
    history: bool = False
    theorem: TheoremParameters | None = None

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.prices)

    @property
    def sampled(self) -> int:
        """The questions of all rounds together."""
        return self.first + sum(self.sampling.draws)


def plan_boosting(settings: BoostingSettings, problem: Problem) -> BoostingPlan:
    """The plan of a release, or `CannotServe`."""
    _check(settings, problem)
    certificate = problem.cap * Fraction(settings.certificate)
    left = left_after_total(problem, settings.certificate)
    return (_theorem_plan if settings.theorem else _practical_plan)(settings, problem, left, certificate)


def _check(settings: BoostingSettings, problem: Problem) -> None:
    """Refuse questions or settings that no plan can serve."""
    kind = _kind(settings, problem)
    if problem.listed:
        refuse_for(not_counting(problem))
    if settings.theorem and not problem.total_is_public:
        raise CannotServe("Theorem 6.1 is for replaced rows and a public number of rows")
    if kind == "rows" and problem.linear and not problem.counting:
        raise CannotServe("rows are not searched for by sums of values: leave generator out")
    if kind in ("rows", OWN) and not settings.theorem:
        return
    if problem.linear:
        refuse_for(no_histogram(problem, copies=1 if settings.theorem else _rounds(settings, problem) / 4))
    elif kind != "brute" and not (settings.theorem and settings.generator is None):
        raise CannotServe(
            "functions of the whole table are no counts of records: leave generator out, or take brute or rows"
        )
    brute = kind == "brute" or (settings.theorem and not problem.counting)
    if brute and not few_tables(problem):
        needs = f"a public number of rows and at most {most_tables(problem):,} possible tables"
        out = ": leave theorem=True out" if settings.theorem else ""
        raise CannotServe(f"brute force (Theorem 6.6) needs {needs}{out}")
    if kind == "syntheticizer" and not settings.theorem and problem.cells * len(problem.workload) > MOST_ENTRIES:
        raise CannotServe(f"its linear program would have more than {MOST_ENTRIES:,} entries: use generator=entropy")


def _practical_plan(
    settings: BoostingSettings, problem: Problem, left: Fraction, certificate: Fraction
) -> BoostingPlan:
    """Few rounds with a strong edge; what is left out of the settings is chosen from public facts."""
    candidates = Candidates.of(problem.workload.distinct())
    kind, fresh = _kind(settings, problem), _fresh(settings, problem)
    rounds = _rounds(settings, problem) if len(candidates) > 1 else 1
    first = _first(settings, problem, candidates)
    weighted = settings.aggregate == "weighted"
    # A synopsis of its own sample alone needs as large a one in every round.
    each = settings.draws or (first if fresh else max(1, round(first / (3 * max(rounds - 1, 1)))))
    draws = (min(each, len(candidates)),) * (rounds - 1)
    growth = (settings.growth or (1.0 if fresh else GROWTH)) if weighted else 1.0
    rates = growing_rates(len(candidates), rounds, growth)
    selection, anchor = Fraction(settings.selection or SELECTION), Fraction(0)
    if kind == "rows":
        selection, anchor = Fraction(settings.selection or ROW_SELECTION), left * ANCHOR
        if settings.draws is None:
            draws = usual_sample(problem, first, of=len(candidates), rounds=rounds)[1]
        if settings.growth is None and weighted and not fresh:
            rates = unclipped_rates(rounds)
    left -= anchor
    sampled = first + sum(draws)
    # A sampled question is as wrong as its noise; what is less wrong than that counts as right.
    law = problem.law(problem.sensitivity(candidates[0]), left * (1 - selection) / sampled)
    lam = min(expected_size(law) / candidates[0].grid, float(problem.planned_denominator))
    sampling = plan_sampling(problem, rates=rates, draws=draws, lam=lam, price=left * selection)
    if sampling is None:
        raise CannotServe("its budget is too small to draw questions by: raise epsilon")
    measuring = left - sampling.price
    return BoostingPlan(
        candidates=candidates,
        first=first,
        sampling=sampling,
        prices=tuple(measuring * k / sampled for k in (first, *draws)),
        generator=kind,
        certificate=certificate,
        anchor=anchor,
        history=not fresh,
    )


def _theorem_plan(settings: BoostingSettings, problem: Problem, left: Fraction, certificate: Fraction) -> BoostingPlan:
    """Everything from Theorem 6.1; refused where that promises nothing."""
    named = None if callable(settings.generator) else settings.generator
    found = theorem_parameters(problem, left, named)
    whole = problem.denominator
    if found is None or not whole:
        raise CannotServe("Theorem 6.1 promises nothing at all here: leave theorem=True out")
    promised = f"Theorem 6.1 promises an error of {found.counts / whole:.3g} here"
    if found.counts >= whole:
        raise CannotServe(f"{promised}, which says nothing: leave theorem=True out")
    if found.generator == "syntheticizer" and problem.cells * len(problem.workload) > MOST_ENTRIES:
        program = f"by a linear program of more than {MOST_ENTRIES:,} entries"
        raise CannotServe(f"{promised}, {program}: ask fewer questions, or leave theorem=True out")
    return BoostingPlan(
        # The theorem is about single questions, each a candidate of its own, marginals included.
        candidates=Candidates.single(problem.workload.distinct()),
        first=found.draws,
        sampling=found.sampling,
        prices=((left - found.sampling.price) / found.rounds,) * found.rounds,
        generator=found.generator,
        certificate=certificate,
        theorem=found,
    )


def _kind(settings: BoostingSettings, problem: Problem) -> str:
    """The generator by its word."""
    if callable(settings.generator):
        return OWN
    return settings.generator or ("entropy" if problem.linear else "rows")


def _fresh(settings: BoostingSettings, problem: Problem) -> bool:
    """Whether a synopsis knows the measurements of its own round alone."""
    return _kind(settings, problem) not in ("entropy", "rows") or not settings.history


def _rounds(settings: BoostingSettings, problem: Problem) -> int:
    usual = _row_rounds(settings, problem) if _kind(settings, problem) == "rows" else ROUNDS
    return settings.rounds or (FRESH_ROUNDS if _fresh(settings, problem) else usual)


def _row_rounds(settings: BoostingSettings, problem: Problem) -> int:
    """Fewer where the first sample leaves few functions out: each round is a search with little left to find."""
    if problem.counting:
        return ROW_ROUNDS
    asked = len(problem.workload.distinct())
    missed = asked - usual_sample(problem, settings.first, of=asked, rounds=1)[0]
    return min(ROW_ROUNDS, 2 + math.ceil(missed / MISSED))


def _first(settings: BoostingSettings, problem: Problem, candidates: Candidates) -> int:
    if not problem.counting:
        return usual_sample(problem, settings.first, of=len(candidates), rounds=1)[0]
    return min(settings.first or first_size(candidates), len(candidates))
