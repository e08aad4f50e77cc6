"""`cs.plan_value`: how one value would be released, chosen from public facts alone before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from conspectus.curator.acts import relation_of
from conspectus.curator.stable_statistics import LogScale, StableMedian, StableMode, StableStatistic
from conspectus.mechanisms.mechanism import NoMechanism, Problem, root_down, root_up
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.accounting import price_approximate, rho_of, scale_up
from conspectus.privacy.events import ByRelation, Noise, StableValue
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.prices import least_that_fits
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.releases.planning import neighbours_of
from conspectus.suggestions import did_you_mean

from .aggregated import Aggregated
from .column_values import ColumnValue
from .value_plan import CHOICES, MECHANISMS, Test, ValuePlan, Wanted, expected_choice, expected_mean, expected_tests


def plan_value(
    wanted: Wanted,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str = "auto",
    within: int | None = None,
    neighbours: str | None = None,
) -> ValuePlan:
    """Say what a release of one value would do, before anything is spent. No row is read.

    Args:
        wanted: What `cs.aggregated`, `cs.column_mode`, `cs.column_median` or `cs.interquartile_range` made.
        epsilon: The privacy loss ε. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee.
        rho: The concentrated privacy loss ρ, in place of ε.
        mechanism: As in `cs.release_value`.
        within: As in `cs.release_value`.
        neighbours: "replace" or "add-remove": what one person may change. None means the schema's, else "replace".

    Returns:
        The plan: `.mechanism`, `.widths`, `.rank`, `.distance`, `.notes`.

    Raises:
        BudgetError: The budget is none.
        NoMechanism: There is no such mechanism for this value, or it needs a delta.
        SettingError: `within` is out of range, or goes with another mechanism.

    Example:
        >>> age = cs.column_median(schema, "age")
        >>> cs.plan_value(age, epsilon=1.0).mechanism
        'permute-and-flip'
        >>> plan = cs.plan_value(age, epsilon=1.0, delta=1e-6, mechanism="stable")
        >>> round(plan.distance)
        34
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    schema = wanted.schema
    relation = relation_of(schema, neighbours_of(neighbours, schema), filtered=schema.unit.kind == "id")
    return plan_of(wanted, budget, relation, mechanism=mechanism, within=within)


def plan_of(
    wanted: Wanted,
    budget: Budget,
    relation: Relation,
    *,
    mechanism: str = "auto",
    within: int | None = None,
    ledgered: bool = False,
    aside: Fraction = Fraction(0),
) -> ValuePlan:
    """The plan for public facts, or a refusal."""
    name = _mechanism(wanted, budget, mechanism)
    if (name == "propose-test-release") != (within is not None):
        raise SettingError(
            "within, how many positions the median may move, goes with mechanism='propose-test-release', which needs it"
        )
    if within is not None and (type(within) is not int or not 1 <= within < wanted.positions):
        raise SettingError(f"within is a whole number of positions, from 1 to {wanted.positions - 1:,}")
    if name in ("laplace", "gaussian"):
        return _mean(wanted, budget, relation, name)
    if name in CHOICES:
        return _choice(wanted, budget, relation, name)
    return _tested(wanted, budget, relation, name, within or 0, ledgered=ledgered, aside=aside)


def _mechanism(wanted: Wanted, budget: Budget, asked: str) -> str:
    able = MECHANISMS[wanted.kind]
    if asked == "auto":
        loose = {"mean": "gaussian", "median": "exponential", "mode": "exponential"}
        asked = able[0] if budget.pure else loose.get(wanted.kind, able[0])
    if asked not in able:
        raise NoMechanism(
            f'a {wanted.kind} is not released by "{asked}"{did_you_mean(asked, able)}; there are {", ".join(able)}'
        )
    if asked == "gaussian" and budget.pure:
        raise NoMechanism("Gaussian noise is never pure: allow a delta above 0, or take laplace")
    if asked in ("stable", "propose-test-release") and (budget.epsilon is None or not budget.delta):
        raise NoMechanism(
            f"{asked} publishes nothing where the value is not stable, which no noise shows for sure: give epsilon and "
            "a delta above 0"
        )
    return asked


def _mean(wanted: Wanted, budget: Budget, relation: Relation, name: str) -> ValuePlan:
    assert isinstance(wanted, Aggregated)
    problem = Problem(workload=wanted.sums(), budget=budget, relation=relation)
    moved = problem.sensitivity(problem.workload)
    if name == "laplace" and not budget.pure:
        law = Noise("laplace", root_up(Fraction(moved.l2_squared) / (2 * problem.cap)))
    else:
        law = problem.law(moved, problem.cap)
    return expected_mean(wanted, name, budget, relation, law)


def _choice(wanted: Wanted, budget: Budget, relation: Relation, name: str) -> ValuePlan:
    """Each output is chosen by an equal share of the budget."""
    problem = Problem(workload=wanted.counts(0), budget=budget, relation=relation)
    each = problem.cap / len(wanted.names)
    if name == "exponential":
        epsilon = problem.selection(each)
    else:
        epsilon = each if problem.currency == "pure" else root_down(2 * each)
    return expected_choice(wanted, name, budget, relation, epsilon)


def _tested(
    wanted: Wanted,
    budget: Budget,
    relation: Relation,
    name: str,
    within: int,
    *,
    ledgered: bool,
    aside: Fraction,
) -> ValuePlan:
    if ledgered and not aside:
        raise NoMechanism(
            "its delta is its own, and the ledger has none left that was set aside for such acts: make one with "
            "aside=0.5 (conspectus ledger init --aside 0.5), or release it without one"
        )
    whats = statistics_of(wanted, within)
    own = Fraction(budget.delta) / (2 if ledgered else 1) / len(whats)
    tests = tuple(_test(what, budget, relation, len(whats), own, ledgered=ledgered) for what in whats)
    missing = sum((price_approximate(test.act(relation), relation.neighbours)[1] for test in tests), Fraction(0))
    if ledgered and missing > aside:
        raise NoMechanism(
            f"half of its delta, {budget.delta / 2:.3g}, is its own, and the ledger has {float(aside):.3g} left aside "
            "for such acts: ask for a smaller delta"
        )
    return expected_tests(wanted, name, budget, relation, tests)


def statistics_of(wanted: Wanted, within: int) -> Sequence[StableStatistic]:
    """What is tested: of a scale both ways to cut its logarithm into bins."""
    if wanted.kind == "interquartile-range":
        assert isinstance(wanted, ColumnValue)
        return [LogScale(wanted.counts(0), shifted, wanted.bins) for shifted in (False, True)]
    counts = [wanted.counts(place) for place in range(len(wanted.names))]
    return [StableMode(each) if wanted.kind == "mode" else StableMedian(each, within) for each in counts]


def _test(
    what: StableStatistic, budget: Budget, relation: Relation, acts: int, own: Fraction, *, ledgered: bool
) -> Test:
    """The least noise and the least threshold that a share of the budget pays for: half is for noise on the value."""
    moved = what.moved(relation).under(relation.neighbours)
    assert moved is not None
    assert budget.epsilon is not None
    halves = acts * (2 if what.spread else 1)
    if ledgered:
        # A ledger adds up ρ. Half of δ is left to convert it.
        rho = Fraction(rho_of(budget.epsilon, budget.delta / 2)) / halves
        scale, noise = (root_up(Fraction(far) ** 2 / (2 * rho)) for far in (moved, max(what.spread, 1)))
    else:
        epsilon = Fraction(budget.epsilon) / halves
        scale, noise = (scale_up(Fraction(far) / epsilon) for far in (moved, max(what.spread, 1)))
    return Test(
        what=what,
        scale=scale,
        threshold=least_threshold(scale, int(moved), own),
        noise_scale=noise if what.spread else None,
    )


def least_threshold(scale: float, moved: int, delta: Fraction) -> int:
    """The least threshold whose δ fits: moved + t with P(Z ≥ t) ≤ δ, about moved + scale·ln(1/2δ).

    P(Z ≥ t) falls as t grows, and so does its float, which is the exponential of a float that falls.
    """

    far = ByRelation(replace=Fraction(moved), add_remove=Fraction(moved))
    free = ByRelation(replace=Fraction(0), add_remove=Fraction(0))

    def fits(above: int) -> bool:
        act = StableValue(moved=far, scale=Fraction(scale), threshold=moved + above, epsilon=free)
        return price_approximate(act, Neighbours.ADD_REMOVE)[1] <= delta

    return moved + least_that_fits(fits, math.floor(scale * math.log(1 / (2 * delta))))
