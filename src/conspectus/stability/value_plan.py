"""What a release of one value does: its acts, and what to expect of it. All of it follows from public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from conspectus.curator.acts import Rule, measurement, selection, selection_rate, spread_of, stable_act
from conspectus.curator.scores import ERROR_STEPS, LargestCounts, MiddleRanks
from conspectus.curator.stable_statistics import StableMedian, StableStatistic
from conspectus.mechanisms.bounds import FAILURE
from conspectus.privacy.events import Event, Noise, StableValue
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.privacy.tails import noise_margin, sum_quantile
from conspectus.queries.blocks.subsample_results import SUM_STEPS, Numbers

from .aggregated import Aggregated
from .column_values import ColumnValue

Wanted = Aggregated | ColumnValue
CHOICES: tuple[Rule, ...] = ("permute-and-flip", "exponential", "noisy-max")
"""Mechanisms that choose a value, by the rule of their name."""
RULES: dict[str, Rule] = {rule: rule for rule in CHOICES}
MECHANISMS = {
    "mean": ("laplace", "gaussian"),
    "median": ("permute-and-flip", "exponential", "stable", "propose-test-release"),
    "mode": (*CHOICES, "stable"),
    "interquartile-range": ("stable",),
}
"""By which mechanisms each kind of value can be released; the first is the default of a pure budget."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """How a value is tested and published: the noise on its distance, the threshold, and the noise on itself."""

    what: StableStatistic
    scale: float
    threshold: int
    noise_scale: float | None

    def act(self, relation: Relation) -> StableValue:
        """The act of it."""
        return stable_act(self.what, self.scale, self.threshold, self.noise_scale, relation=relation)


@dataclass(frozen=True, kw_only=True)
class ValuePlan:
    """What a release of single values will do, and what to expect of it. Made by `cs.plan_value`; nothing is spent.

    Attributes:
        wanted: What is released.
        mechanism: By which mechanism.
        budget: What may be spent.
        neighbours: Which tables are neighbours.
        widths: About how far the ends of a 95 % interval will be from each value, in its own units; None where there
            will be none, or where the value decides.
        rank: With probability 0.95, at most so many rows, or subsamples, lie between the value and the true one; of a
            mode so many does it fall short. None where the mechanism promises something else.
        distance: From which distance on a value is published with probability 0.95. None where it always is.
        notes: What to expect in words.
    """

    wanted: Wanted
    mechanism: str
    budget: Budget
    relation: Relation
    widths: tuple[float | None, ...]
    rank: float | None = None
    distance: float | None = None
    notes: tuple[str, ...] = ()
    law: Noise | None = None
    epsilon: Fraction | None = None
    tests: tuple[Test, ...] = ()

    @property
    def neighbours(self) -> Neighbours:
        return self.relation.neighbours

    @property
    def declared(self) -> tuple[Event, ...]:
        """The complete list of acts, where it is fixed before the first draw; else nothing."""
        return self.acts(len(self.tests)) if self.epsilon is None else ()

    @property
    def within(self) -> int | None:
        """By how many positions one person may move a median, where it is published if nobody moves it further."""
        moved = {test.what.within for test in self.tests if isinstance(test.what, StableMedian)} - {0}
        return moved.pop() if moved else None

    def acts(self, tested: int) -> tuple[Event, ...]:
        """All that is done where so many of its tests are made: a scale that was found is not looked for again."""
        if self.law is not None:
            assert isinstance(self.wanted, Aggregated)
            return (measurement(self.wanted.sums(), self.law, relation=self.relation),)
        if self.epsilon is None:
            return tuple(test.act(self.relation) for test in self.tests[:tested])
        rule, epsilon = RULES[self.mechanism], self.epsilon
        scores = [score_of(self.wanted, place) for place in range(len(self.wanted.names))]
        return tuple(selection(score, epsilon, relation=self.relation, rule=rule)[0] for score in scores)


def expected_mean(wanted: Aggregated, name: str, budget: Budget, relation: Relation, law: Noise) -> ValuePlan:
    """The plan of a mean that is measured with this noise."""
    results = wanted.subsampling.results
    assert isinstance(results, Numbers)
    margin = mean_margin(wanted, law, 0.95)
    return ValuePlan(
        wanted=wanted,
        mechanism=name,
        budget=budget,
        relation=relation,
        widths=tuple((high - low) * margin for low, high in results.ranges),
        law=law,
        notes=("the mean over subsamples is measured; how far their results lie from one on all rows is not known",),
    )


def mean_margin(wanted: Aggregated, law: Noise, confidence: float) -> float:
    """How far a measured mean may be off, as a share of the range: by noise, and by the rounding of results."""
    noise = noise_margin(law.kind, law.scale, 1, confidence) / (SUM_STEPS * wanted.subsampling.count)
    return noise + 0.5 / SUM_STEPS


def expected_choice(wanted: Wanted, name: str, budget: Budget, relation: Relation, epsilon: Fraction) -> ValuePlan:
    """The plan of values that are chosen, each with this epsilon."""
    failure = FAILURE / len(wanted.names)
    spread = spread_of(score_of(wanted, 0), relation).under(relation.neighbours)
    assert spread is not None
    rate = selection_rate(spread / 2, epsilon) if name == "exponential" else epsilon / spread
    short = math.log(wanted.positions / failure) / float(rate) * (2 if name == "noisy-max" else 1)
    # Scores of a median are twice its ranks, those of a mode have several steps to a count.
    rank = short / (2 if wanted.kind == "median" else ERROR_STEPS)
    what = "subsamples" if isinstance(wanted, Aggregated) else "rows"  # what ranks are of
    said = f"at most {rank:.3g} {what} lie between it and the median"
    if wanted.kind == "mode":
        said = f"the most common value has at most {rank:.3g} {what} more"
    return ValuePlan(
        wanted=wanted,
        mechanism=name,
        budget=budget,
        relation=relation,
        widths=(None,) * len(wanted.names),
        rank=rank,
        epsilon=epsilon,
        notes=(f"with probability {1 - FAILURE:g} {said}; a choice has no interval of its own",),
    )


def score_of(wanted: Wanted, place: int) -> LargestCounts | MiddleRanks:
    """What a mode or a median is chosen by."""
    counts = wanted.counts(place)
    return MiddleRanks(counts) if wanted.kind == "median" else LargestCounts(counts)


def expected_tests(wanted: Wanted, name: str, budget: Budget, relation: Relation, tests: tuple[Test, ...]) -> ValuePlan:
    """The plan of values that are published where these tests find them stable."""
    within = next((test.what.within for test in tests if isinstance(test.what, StableMedian)), 0)
    distance = max(test.threshold + sum_quantile("laplace", test.scale, 1, 1 - 2 * FAILURE) for test in tests)
    what = "subsamples" if isinstance(wanted, Aggregated) else "rows"  # what ranks are of
    said = {
        "mode": f"the most common value has about {distance:,} {what} more than the next",
        "median": f"about {distance / 2:,.0f} {what} on either side of the median lie within "
        f"{within or 'the same'} position{'s' if within > 1 else ''}",
        "interquartile-range": f"about {distance / 4:,.0f} {what} around each quartile keep the range in its bin",
    }[wanted.kind]
    return ValuePlan(
        wanted=wanted,
        mechanism=name,
        budget=budget,
        relation=relation,
        widths=tuple(_width(wanted, test, place) for place, test in enumerate(tests))[: len(wanted.names)],
        distance=float(distance),
        tests=tests,
        notes=(
            f"published with probability {1 - FAILURE:g} if {said}; otherwise perhaps nothing is, for the same price",
        ),
    )


def _width(wanted: Wanted, test: Test, place: int) -> float | None:
    """How far an interval reaches, where that is known before: noise in positions, of one width each."""
    if test.noise_scale is None or not isinstance(wanted, Aggregated):
        return None
    results = wanted.subsampling.results
    assert isinstance(results, Numbers)
    low, high = results.ranges[place]
    return noise_margin("laplace", test.noise_scale, 1, 0.95) * (high - low) / (results.levels - 1)
