"""Boosting for queries: Figure 6.1 of the book (Dwork, Rothblum and Vadhan 2010).

Each round draws questions from a distribution over all of them, makes a synopsis that is right on the sample, and moves
weight to the questions that it gets wrong. The median of all synopses is then right on every question.

Privacy: composes k draws of the exponential mechanism a round (Lemma 6.4; the first round is uniform and free), one
measurement of the sample a round, the row total, and the certificates. Accuracy: Theorem 6.1 where `theorem=True`;
otherwise what the generator's edge turns out to be is not promised, and the two certificates say what became of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS
from conspectus.mechanisms.certificate import certify, measure_potential, potential_law
from conspectus.mechanisms.interactions import Interactions, deviation
from conspectus.mechanisms.iterative import Candidates, unmeasured
from conspectus.mechanisms.mechanism import (
    Claim,
    ErrorBound,
    Outcome,
    Problem,
    Refusal,
    SettingError,
    expected_maximum,
    expected_size,
    no_histogram,
    not_counting,
)
from conspectus.mechanisms.total import find_total
from conspectus.privacy.events import Event, Noise
from conspectus.synopses.median_ensemble import MOST_MEMBERS
from conspectus.synopses.synopsis import Total

from .first_sample import first_size
from .generators import MOST_ENTRIES, BruteForce, Generator, MaximumEntropy, Syntheticizer, few_tables, most_tables
from .own_generator import OwnGenerator, OwnRounds
from .reweighting import growing_rates, needed_edge, plan_sampling, unclipped_rates
from .rounds import BoostingPlan, boost
from .row_search import ANCHOR, ROWS, RowSearch, usual_sample
from .theorem import CITES, EDGE, FAILURE, check_left_out, promise

ROUNDS, GROWTH = 7, 1.6
"""With a history: chosen on NLTCS, 3-way and 5-way marginals at three budgets."""

FRESH_ROUNDS = 3
ROW_ROUNDS = 16
"""With synthetic rows: chosen on 20,000 functions of Adult."""
MISSED = 50
"""Functions that the first sample leaves out, for a round beyond two: chosen on 60 to 245 functions of 1,000 rows."""

GENERATORS = ("entropy", "syntheticizer", "brute", "rows")
OWN = "own"
AGGREGATES = ("weighted", "median")
_FREE = ("theorem", "certificate", "public_seed")
"""What theorem=True leaves to its caller."""

_POTENTIAL_SHARE = Fraction(1, 4)


@dataclass(frozen=True, kw_only=True)
class Boosting:
    """Few rounds with a strong edge by default; `theorem=True` takes everything from Theorem 6.1.

    `first` questions are measured in the first round, `draws` in each later one, of `rounds` in all. `selection` is
    the share of the budget that the draws cost (a quarter by default, 0.6 with rows), `certificate` the share that the
    two certificates do. `generator` is "entropy" (with all measurements so far, or without `history` the round's own),
    "rows" (synthetic rows by local search, for every kind of question), "syntheticizer" or "brute"; by default rows for
    functions of the table and entropy for counts; or a function of one's own, an `OwnGenerator`. Rates grow by
    `growth` a round, where synopses have a history and so get better, and the answer is the median weighted by them;
    with `aggregate="median"` all rates are equal. With `theorem=True` only `certificate`, `public_seed` and, between
    brute and syntheticizer, `generator` can be chosen.
    `public_seed` fixes the public choices: the first round's questions and the coins of searches.
    """

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

    name: ClassVar[str] = "boosting"

    def __post_init__(self) -> None:
        if any(number is not None and number < 1 for number in (self.rounds, self.first, self.draws)):
            raise SettingError("rounds, first and draws are at least 1")
        if self.rounds is not None and self.rounds > MOST_MEMBERS:
            raise SettingError(f"rounds is at most {MOST_MEMBERS}")
        if (self.selection is not None and not 0 < self.selection < 1) or not 0 <= self.certificate < 1:
            raise SettingError("selection lies strictly between 0 and 1, certificate in [0, 1)")
        if not callable(self.generator) and self.generator not in (None, *GENERATORS):
            raise SettingError(f"generator is one of {', '.join(GENERATORS)}, or a function of a noisy sample")
        if self.aggregate not in (None, *AGGREGATES):
            raise SettingError(f"aggregate is one of {', '.join(AGGREGATES)}")
        if (
            (self.growth is not None and not 1 <= self.growth <= 4)
            or self.evaluations < 1
            or not 0 < self.ridge < math.inf
        ):
            raise SettingError("growth lies between 1 and 4, evaluations at 1 or above, ridge above 0")
        if self.public_seed is not None and self.public_seed < 0:
            raise SettingError("public_seed is 0 or above")
        if self.theorem:
            usual = {field.name: field.default for field in fields(self) if field.name not in _FREE}
            check_left_out({name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]})
        if self.aggregate is None:
            object.__setattr__(self, "aggregate", "median" if self.theorem else "weighted")

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        refused = self._refusal(problem)
        if refused is not None:
            return Refusal(mechanism=self.name, reason=refused)
        if self.theorem:
            return self._promised(problem)
        left = problem.cap * (1 - Fraction(self.certificate))
        course = self._course(problem, left)
        # A bought total will take a little of it: affordable means with room to spare.
        if course is None or self._course(problem, left / 2) is None:
            reason = "its budget is too small to draw questions by: raise epsilon"
            return Refusal(mechanism=self.name, reason=reason)
        candidates, sampling = course.candidates, course.sampling
        sampled = course.first + sum(sampling.draws)
        law = problem.law(problem.sensitivity(candidates[0]), sum(course.prices, Fraction(0)) / sampled)
        mean, largest = self._expected(problem, course, law, sampled)
        edge = needed_edge(len(candidates), sampling.rates)
        return Claim(
            mechanism=self.name,
            expected_max=min(largest, float(problem.denominator or math.inf)),
            expected_mean=mean,
            bound=None,
            memory=self._memory(problem, course.rounds),
            citations=("Dwork, Rothblum & Vadhan 2010, Figure 1", "Dwork & Roth 2014, Lemmas 6.2 and 6.4"),
            notes=(
                f"{course.rounds} rounds, {course.first} questions in the first and {sum(sampling.draws)} drawn in "
                f"later ones; all answers are within {sampling.inaccurate:.4g} counts if every synopsis is right on "
                f"{0.5 + edge:.3f} of the weight, which is certified after the fact",
            ),
        )

    def _expected(self, problem: Problem, course: BoostingPlan, law: Noise, sampled: int) -> tuple[float, float]:
        """Typical errors, mean and largest, in counts, where so many questions are measured with this noise."""
        candidates = course.candidates
        grid = candidates[0].grid
        interactions = Interactions.of(candidates.workload)
        if interactions is not None and problem.rows and course.generator == "entropy" and not self._fresh(problem):
            # The weighted median is about the synopsis in the middle of the weight, which has not seen the last draws.
            rates = np.cumsum(course.sampling.rates)
            middle = int(np.searchsorted(rates, rates[-1] / 2))
            share = (course.first + sum(course.sampling.draws[:middle])) / len(candidates)
            errors = interactions.fitted(deviation(law) / problem.rows, ridge=self.ridge, share=share)
            return errors.mean * problem.rows, errors.largest * problem.rows
        # From measurements on real tables: what was never drawn is about as wrong as what was.
        hidden = 1.15 * unmeasured(problem, candidates, course.first)
        if problem.rows and problem.workload.denominator:
            hidden *= problem.workload.denominator / problem.rows
        largest = max(0.65 * expected_maximum(law, sampled * len(candidates[0])) / grid, hidden)
        return 0.35 * expected_size(law) / grid, largest

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event] | None:
        return None

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        curator.count_ahead(problem.workload.distinct())
        total, left = find_total(curator, problem)
        certificate_price = problem.cap * Fraction(self.certificate)
        left -= certificate_price
        course = self._theorem_course(problem, left) if self.theorem else self._course(problem, left)
        assert course is not None
        generator = self._generator(problem, course, total)
        run = boost(curator, problem, course, generator, total, public_seed=self.public_seed)
        ensemble, reweighting, answers = run
        if len(answers) != len(problem.workload):
            answers = ensemble.answer(problem.workload)
        bound = None
        if self.certificate:
            # Where ln Z would prove nothing its price buys a better maximum.
            share = certificate_price * _POTENTIAL_SHARE
            law = potential_law(problem, reweighting, share)
            price = certificate_price if law is None else certificate_price - share
            bound = certify(curator, problem, workload=problem.workload, answers=answers, total=total, price=price)
            if law is not None:
                bound = replace(bound, potential=measure_potential(curator, reweighting, law))
        parameters = self._parameters(course)
        if isinstance(generator, OwnRounds):
            parameters["failures"] = list(generator.failures)
        return Outcome(synopsis=ensemble, answers=answers, total=total, certificate=bound, parameters=parameters)

    def _parameters(self, course: BoostingPlan) -> dict[str, Any]:
        sampling = course.sampling
        return {
            "rounds": course.rounds,
            "first": course.first,
            "draws": list(sampling.draws),
            "generator": course.generator,
            "aggregate": self.aggregate,
            "near": sampling.near / ERROR_STEPS,
            "gap": sampling.gap / ERROR_STEPS,
            "rates": [rate / LOG_WEIGHT_STEPS for rate in sampling.rates],
            "needed_edge": needed_edge(len(course.candidates), sampling.rates),
            "certificate": self.certificate,
        }

    @property
    def _named(self) -> str | None:
        return None if callable(self.generator) else self.generator

    def _kind(self, problem: Problem) -> str:
        if callable(self.generator):
            return OWN
        return self.generator or ("entropy" if problem.counting else "rows")

    def _fresh(self, problem: Problem) -> bool:
        return self._kind(problem) not in ("entropy", "rows") or not self.history

    def _rounds(self, problem: Problem) -> int:
        usual = self._row_rounds(problem) if self._kind(problem) == "rows" else ROUNDS
        return self.rounds or (FRESH_ROUNDS if self._fresh(problem) else usual)

    def _row_rounds(self, problem: Problem) -> int:
        """Fewer where the first sample leaves few functions out: each round is a search with little left to find."""
        if problem.counting:
            return ROW_ROUNDS
        asked = len(problem.workload.distinct())
        missed = asked - usual_sample(problem, self.first, of=asked, rounds=1)[0]
        return min(ROW_ROUNDS, 2 + math.ceil(missed / MISSED))

    def _first(self, problem: Problem, candidates: Candidates) -> int:
        if not problem.counting:
            return usual_sample(problem, self.first, of=len(candidates), rounds=1)[0]
        return min(self.first or first_size(candidates), len(candidates))

    def _memory(self, problem: Problem, rounds: int) -> int:
        answers = 64 * len(problem.workload) * rounds
        if self._kind(problem) in ("rows", OWN):
            return 8 * ROWS * len(problem.workload.domain) * rounds + answers
        return 8 * (10 + rounds) * problem.cells + answers

    def _refusal(self, problem: Problem) -> str | None:
        kind = self._kind(problem)
        if problem.listed:
            return not_counting(problem)
        if self.theorem and not problem.total_is_public:
            return "Theorem 6.1 is for replaced rows and a public number of rows"
        if kind in ("rows", OWN) and not self.theorem:
            return None
        if problem.counting:
            refused = no_histogram(problem, copies=1 if self.theorem else self._rounds(problem) / 4)
            if refused is not None:
                return refused
        elif kind != "brute" and not (self.theorem and self.generator is None):
            return "functions of the whole table are no counts of records: leave generator out, or take brute or rows"
        brute = kind == "brute" or (self.theorem and not problem.counting)
        if brute and not few_tables(problem):
            needs = f"a public number of rows and at most {most_tables(problem):,} possible tables"
            return f"brute force (Theorem 6.6) needs {needs}" + (": leave theorem=True out" if self.theorem else "")
        if kind == "syntheticizer" and not self.theorem and problem.cells * len(problem.workload) > MOST_ENTRIES:
            return f"its linear program would have more than {MOST_ENTRIES:,} entries: use generator=entropy"
        return None

    def _promised(self, problem: Problem) -> Claim | Refusal:
        found = promise(problem, problem.cap * (1 - Fraction(self.certificate)), self._named)
        whole = problem.denominator
        if found is None or not whole or found.counts >= whole:
            said = "nothing at all" if found is None or not whole else f"an error of {found.counts / whole:.3g}"
            tail = "" if said == "nothing at all" else ", which says nothing"
            reason = f"Theorem 6.1 promises {said} here{tail}: leave theorem=True out"
            return Refusal(mechanism=self.name, reason=reason)
        if found.generator == "syntheticizer" and problem.cells * len(problem.workload) > MOST_ENTRIES:
            reason = (
                f"Theorem 6.1 promises an error of {found.counts / whole:.3g} here, by a linear program of more than "
                f"{MOST_ENTRIES:,} entries: ask fewer questions, or leave theorem=True out"
            )
            return Refusal(mechanism=self.name, reason=reason)
        bound = ErrorBound(value=found.counts / whole, statistic="max", probability=1 - FAILURE, theorem=CITES[0])
        return Claim(
            mechanism=self.name,
            expected_max=found.counts,
            expected_mean=found.sampling.near / ERROR_STEPS,
            bound=bound,
            memory=8 * (10 + found.rounds) * problem.cells + 64 * len(problem.workload) * found.rounds,
            citations=CITES,
            notes=(
                f"{found.rounds} rounds of {found.draws:,} draws, edge {EDGE:.3f}, generator "
                f"{found.generator} over tables of {found.rows} rows",
            ),
        )

    def _course(self, problem: Problem, left: Fraction) -> BoostingPlan | None:
        """The practical parameters, from public facts; None where the draws cannot be afforded."""
        candidates = Candidates.of(problem.workload.distinct())
        kind, fresh = self._kind(problem), self._fresh(problem)
        rounds = self._rounds(problem) if len(candidates) > 1 else 1
        first = self._first(problem, candidates)
        # A synopsis of its own sample alone needs as large a one in every round.
        each = self.draws or (first if fresh else max(1, round(first / (3 * max(rounds - 1, 1)))))
        draws = (min(each, len(candidates)),) * (rounds - 1)
        selection = Fraction(self.selection or 0.25)
        growth = (self.growth or (1.0 if fresh else GROWTH)) if self.aggregate == "weighted" else 1.0
        rates = growing_rates(len(candidates), rounds, growth)
        anchor = Fraction(0)
        if kind == "rows":
            anchor = left * ANCHOR
            left -= anchor
            selection = Fraction(self.selection or 0.6)
            if self.draws is None:
                draws = usual_sample(problem, first, of=len(candidates), rounds=rounds)[1]
            if self.growth is None and self.aggregate == "weighted" and not fresh:
                rates = unclipped_rates(rounds)
        sampled = first + sum(draws)
        measuring = left * (1 - selection)
        # A sampled question is as wrong as its noise; what is less wrong than that counts as right.
        near = expected_size(problem.law(problem.sensitivity(candidates[0]), measuring / sampled)) / candidates[0].grid
        near = min(near, float(problem.denominator or math.inf))
        sampling = plan_sampling(problem, rates=rates, draws=draws, near=near, price=left * selection)
        if sampling is None:
            return None
        measuring = left - sampling.price
        prices = [measuring * first / sampled] + [measuring * k / sampled for k in draws]
        return BoostingPlan(
            candidates=candidates,
            first=first,
            sampling=sampling,
            prices=tuple(prices),
            generator=kind,
            anchor=anchor,
            history=not fresh,
        )

    def _theorem_course(self, problem: Problem, left: Fraction) -> BoostingPlan | None:
        found = promise(problem, left, self._named)
        if found is None:
            return None
        asked = problem.workload.distinct()
        # The theorem is about single questions, each a candidate of its own, marginals included.
        candidates = Candidates(asked, np.arange(len(asked), dtype=np.int64))
        prices = ((left - found.sampling.price) / found.rounds,) * found.rounds
        return BoostingPlan(
            candidates=candidates,
            first=found.draws,
            sampling=found.sampling,
            prices=prices,
            generator=found.generator,
            promise=found,
        )

    def _generator(self, problem: Problem, course: BoostingPlan, total: Total) -> Generator:
        found, kind = course.promise, course.generator
        if kind == "rows":
            return RowSearch(problem, total, anchor=course.anchor, history=self.history, public_seed=self.public_seed)
        if callable(self.generator):
            return OwnRounds(problem, total, self.generator, rounds=course.rounds)
        if kind == "entropy":
            return MaximumEntropy(
                problem, total.divisor, history=self.history, evaluations=self.evaluations, ridge=self.ridge
            )
        if kind == "syntheticizer":
            rows = None if found is None else found.rows
            return Syntheticizer(problem, total.divisor, rows=rows, public_seed=self.public_seed)
        rows = total.rows if problem.workload.denominator is None else problem.rows or 0
        return BruteForce(problem, rows, failure=FAILURE if found is None else found.failure)
