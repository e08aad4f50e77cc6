"""`cs.release_value`: one private value of a table, with its interval, or the reason why there is none."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from conspectus.curator.acts import Rule, relation_of
from conspectus.curator.curator import Curator
from conspectus.curator.stable_statistics import LOG_STEPS, NO_SPREAD
from conspectus.curator.truth import Progress, Truth
from conspectus.data.sources import Table
from conspectus.mechanisms.mechanism import ProblemError
from conspectus.privacy.accounting import Allowance, Declared, Filter, sum_of_deltas
from conspectus.privacy.events import Event, to_json
from conspectus.privacy.guarantee import Budget, Guarantee, large_epsilon
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.privacy.noise import Sampler, SystemSampler
from conspectus.privacy.tails import noise_margin
from conspectus.queries.blocks.subsample_results import SUM_STEPS, Numbers
from conspectus.releases.answer import checked_confidence
from conspectus.releases.planning import check_table, neighbours_of
from conspectus.suggestions import suggest_keywords

from .aggregated import Aggregated, AggregateError
from .column_values import ColumnValue
from .value_plan import CHOICES, ValuePlan, Wanted, mean_margin, plan_of, score_of

UNSTABLE = "the value is not stable enough: a few people could change it, so nothing was published"
CHOSEN = "a choice by its rank: the plan says how many rows or subsamples may lie between, and no interval follows"
ON_SUBSAMPLES = "of the results on subsamples of the table: how far they lie from a result on all rows is not known"


@dataclass(frozen=True, kw_only=True)
class SingleValue:
    """One value with its interval.

    Attributes:
        name: What it is called.
        value: The value: a number, a listed value, or the name of a bin. None where nothing was published.
        low: The true value is at least this, with the stated confidence; None where no interval would be honest.
        high: The true value is at most this.
        confidence: The probability, over the noise, with which the interval holds the truth.
        basis: "measured" (noise whose law is known), "exact" (the true value), "chosen" (by its rank), or "nothing".
        note: What must be said besides.
    """

    name: str
    value: Any
    low: Any
    high: Any
    confidence: float
    basis: str
    note: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name}: nothing. {self.note}"
        shown = f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)
        if self.low is None:
            return f"{self.name}: {shown}, {self.basis}"
        low, high = (f"{end:.6g}" if isinstance(end, float) else str(end) for end in (self.low, self.high))
        return f"{self.name}: {shown}, {self.confidence:.0%} interval {low} to {high}, {self.basis}"


@suggest_keywords
@dataclass(frozen=True, kw_only=True, repr=False)
class ValueRelease:
    """What `cs.release_value` published.

    Attributes:
        values: The values, in the order of their names.
        guarantee: What was spent, and whom it protects.
        mechanism: By which mechanism.
        events: The private acts.
        plan: What was expected.
    """

    values: tuple[SingleValue, ...]
    guarantee: Guarantee
    mechanism: str
    events: tuple[Event, ...]
    plan: ValuePlan

    @property
    def value(self) -> Any:
        """The value, where there is one: None if nothing was published."""
        if len(self.values) != 1:
            raise LookupError("there are several values: take them from .values")
        return self.values[0].value

    def __repr__(self) -> str:
        return f"<ValueRelease: {'; '.join(map(str, self.values))}>"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values.

        Returns:
            A dictionary that JSON can hold.
        """
        return {
            "format": "conspectus-values",
            "version": 1,
            "mechanism": self.mechanism,
            "values": [dataclasses.asdict(value) for value in self.values],
            "guarantee": {**dataclasses.asdict(self.guarantee), "warnings": list(self.guarantee.warnings)},
            "events": [to_json(event) for event in self.events],
            "notes": list(self.plan.notes),
        }

    def save(self, path: str | Path) -> None:
        """Write it to a file, as JSON.

        Args:
            path: The file.
        """
        Path(path).write_text(json.dumps(self.to_dict(), indent=1, default=str), encoding="utf-8")


def release_value(
    table: Table,
    wanted: Wanted,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str = "auto",
    within: int | None = None,
    neighbours: str | None = None,
    ledger: str | Path | Ledger | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> ValueRelease:
    """Release one value of a table, or the few that a function returns, under a privacy budget.

    Refusals come before anything is spent, and depend on public facts alone.

    Args:
        table: What `cs.open_table` or `cs.open_pairs` opened.
        wanted: What `cs.aggregated`, `cs.column_mode`, `cs.column_median` or `cs.interquartile_range` made.
        epsilon: The privacy loss ε. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee.
        rho: The concentrated privacy loss ρ, in place of ε.
        mechanism: "auto"; "laplace" or "gaussian" noise on a mean; a choice of a median or a mode by "permute-and-flip"
            or "exponential", of a mode also by "noisy-max"; "stable" for the exact value, or nothing where a few
            people could change it; "propose-test-release" for a median with little noise where it is nearly stable, or
            nothing. The last two need a delta.
        within: For "propose-test-release", by how many positions (bins, or levels of an aggregated result) one person
            may move the median at most: noise is in proportion to it.
        neighbours: "replace" or "add-remove": what one person may change. None means the schema's, else "replace".
        ledger: The ledger of this table, or its path: it caps all that is ever released, and is debited first. The δ of
            a stable value is taken from what it set aside.
        confidence: The probability, over the noise, with which an interval holds the truth.
        progress: Called as `progress(what, done, total)` while the work goes on.

    Returns:
        A `ValueRelease`: `.value`, or `.values` with their intervals, and `.guarantee`.

    Raises:
        BudgetError: The budget is none.
        ProblemError: The value was declared for another schema.
        NoMechanism: There is no such mechanism for this value, or it needs a delta.
        SettingError: `within` is out of range, or goes with another mechanism.
        AggregateError: The function fails on made rows, or the rows do not come here.
        ConfidenceError: The confidence is not strictly between 0 and 1.
        BudgetExceeded: The ledger has not enough left. It is as it was.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> column = {"type": "categorical", "values": ["flu", "cold", "gout"]}
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": {"diagnosis": column}})
        >>> table = cs.open_table(pa.table({"diagnosis": ["flu"] * 900 + ["cold"] * 300 + ["gout"] * 20}), schema)
        >>> most = cs.column_mode(schema, "diagnosis")
        >>> cs.release_value(table, most, epsilon=1.0).value
        'flu'
        >>> cs.release_value(table, most, epsilon=1.0, delta=1e-9, mechanism="stable").values[0].basis
        'exact'
    """
    return run_value(
        table,
        wanted,
        Budget(epsilon=epsilon, delta=delta, rho=rho),
        mechanism=mechanism,
        within=within,
        neighbours=neighbours,
        ledger=ledger,
        confidence=checked_confidence(confidence),
        progress=progress,
    )


def run_value(
    table: Table,
    wanted: Wanted,
    budget: Budget,
    *,
    mechanism: str = "auto",
    within: int | None = None,
    neighbours: str | None = None,
    ledger: str | Path | Ledger | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
    sampler: Sampler | None = None,
) -> ValueRelease:
    """Plan, reserve, draw, settle."""
    check_table(table, "cs.release_value")
    if not isinstance(wanted, Aggregated | ColumnValue):
        raise ProblemError("a value is needed here, as cs.aggregated, cs.column_mode or cs.column_median make one")
    if wanted.schema.fingerprint != table.schema.fingerprint:
        raise ProblemError("the value was declared for another schema: declare it for the schema of this table")
    if isinstance(wanted, Aggregated) and table.elsewhere:
        raise AggregateError("the rows of a Spark frame do not come here: write the frame to Parquet and open that")
    kept = ledger if ledger is None or isinstance(ledger, Ledger) else Ledger.open(ledger)
    relation = relation_of(table.schema, neighbours_of(neighbours, table.schema), filtered=table.filtered)
    aside = Fraction(0) if kept is None else kept.delta_remaining
    plan = plan_of(wanted, budget, relation, mechanism=mechanism, within=within, ledgered=kept is not None, aside=aside)
    if isinstance(wanted, Aggregated):
        wanted.check()
    sampler = sampler or SystemSampler()
    allowance, reservation = _allowed(table, plan, kept)
    truth = Truth(table, once=True, progress=progress)
    curator = Curator(truth, allowance, neighbours=relation.neighbours, debit=reservation, sampler=sampler)
    # Before anything is spent: a source that is damaged must not cost its budget.
    curator.count_ahead(wanted.sums() if plan.law is not None and isinstance(wanted, Aggregated) else wanted.counts(0))
    values = drawn_values(curator, plan, confidence)
    if reservation is not None:
        reservation.settle()
    said = (*_warnings(wanted), *large_epsilon(budget))
    return ValueRelease(
        values=tuple(values),
        guarantee=allowance.guarantee(str(table.schema.unit), said, private=sampler.private),
        mechanism=plan.mechanism,
        events=allowance.events,
        plan=plan,
    )


def _allowed(table: Table, plan: ValuePlan, ledger: Ledger | None) -> tuple[Allowance, Reservation | None]:
    """What may be spent, and where acts are written down before they are drawn."""
    budget, neighbours = plan.budget, plan.neighbours
    if ledger is None:
        return (Declared(plan.declared, budget, neighbours) if plan.declared else Filter.of(budget, neighbours)), None
    own = plan.declared if plan.tests else ()
    reservation = ledger.reserve(
        budget,
        f"{plan.mechanism}: the {plan.wanted.kind} of {', '.join(plan.wanted.names)}"[:120],
        fingerprint=table.schema.fingerprint,
        neighbours=neighbours,
        unit=str(table.schema.unit),
        events=own or None,
        deferred=True,
    )
    return Filter.of(budget, neighbours, missing=sum_of_deltas(own, neighbours)), reservation


def _warnings(wanted: Wanted) -> tuple[str, ...]:
    said: tuple[str, ...] = ()
    if isinstance(wanted, Aggregated):
        said = ("a function of one's own ran on the rows: what it stored or sent is outside the guarantee",)
    if wanted.schema.draft:
        said += ("the schema was drafted from the data, and what it shows of the data is outside the guarantee",)
    return said


def drawn_values(curator: Curator, plan: ValuePlan, confidence: float) -> list[SingleValue]:
    wanted = plan.wanted
    if plan.law is not None:
        return _means(curator, plan, confidence)
    if plan.mechanism in CHOICES:
        return [_chosen(curator, plan, place, confidence) for place in range(len(wanted.names))]
    if wanted.kind == "interquartile-range":
        return [_scale(curator, plan, confidence)]
    return [_tested(curator, plan, place, confidence) for place in range(len(wanted.names))]


def _means(curator: Curator, plan: ValuePlan, confidence: float) -> list[SingleValue]:
    wanted = plan.wanted
    assert isinstance(wanted, Aggregated)
    assert plan.law is not None
    results = wanted.subsampling.results
    assert isinstance(results, Numbers)
    shares = curator.measure(wanted.sums(), plan.law) / (SUM_STEPS * wanted.subsampling.count)
    margin = mean_margin(wanted, plan.law, confidence)
    found = []
    for name, share, (low, high) in zip(wanted.names, shares.tolist(), results.ranges):
        value, off = low + (high - low) * share, (high - low) * margin
        ends = {"low": value - off, "high": value + off}
        found.append(_value(name, value, confidence, "measured", f"the mean {ON_SUBSAMPLES}", **ends))
    return found


def _chosen(curator: Curator, plan: ValuePlan, place: int, confidence: float) -> SingleValue:
    wanted = plan.wanted
    assert plan.epsilon is not None
    rules: dict[str, Rule] = {"permute-and-flip": "permute-and-flip", "noisy-max": "noisy-max"}
    rule = rules.get(plan.mechanism)
    score = score_of(wanted, place)
    if rule is None:
        position = curator.select(score, plan.epsilon)[0]
    else:
        position = curator.select(score, plan.epsilon, barred=np.zeros(0, dtype=np.int64), rule=rule)[0]
    return _value(wanted.names[place], wanted.shown(int(position), place), confidence, "chosen", CHOSEN)


def _tested(curator: Curator, plan: ValuePlan, place: int, confidence: float) -> SingleValue:
    """A value where it is stable; with noise, as positions, where it is nearly so."""
    wanted, test = plan.wanted, plan.tests[place]
    name, last = wanted.names[place], wanted.positions - 1
    found = curator.stable_value(test.what, test.scale, test.threshold, noise_scale=test.noise_scale)
    if found is None:
        return _value(name, None, confidence, "nothing", UNSTABLE)
    off = 0 if test.noise_scale is None else noise_margin("laplace", test.noise_scale, 1, confidence)
    position, low, high = (min(max(found + moved, 0), last) for moved in (0, -off, off))
    ends = [wanted.ends(end, place) for end in (low, high)]
    note = ON_SUBSAMPLES if isinstance(wanted, Aggregated) else "of the values as the schema divides them into bins"
    basis = "exact" if test.noise_scale is None else "measured"
    if ends[0] is None or ends[1] is None:
        return _value(name, wanted.shown(position, place), confidence, basis, note)
    return _value(name, wanted.shown(position, place), confidence, basis, note, low=ends[0][0], high=ends[1][1])


def _scale(curator: Curator, plan: ValuePlan, confidence: float) -> SingleValue:
    """The book's Algorithm 12: bins of the logarithm, and where a bin's end is too near, bins shifted by half."""
    wanted = plan.wanted
    assert isinstance(wanted, ColumnValue)
    for test in plan.tests:
        assert test.noise_scale is not None
        found = curator.stable_value(test.what, test.scale, test.threshold, noise_scale=test.noise_scale)
        if found is not None:
            off = noise_margin("laplace", test.noise_scale, 1, confidence)
            return _of_logarithm(wanted, found, off, confidence)
    return _value(wanted.column, None, confidence, "nothing", UNSTABLE)


def _of_logarithm(wanted: ColumnValue, found: int, off: int, confidence: float) -> SingleValue:
    note = "counted in whole bins of the schema"
    if found < NO_SPREAD // 2:
        return _value(wanted.column, 0.0, confidence, "exact", note, low=0.0, high=0.0)
    widest = wanted.positions - 1

    def power(steps: int) -> float:
        return float(wanted.step * min(2.0 ** min(steps / LOG_STEPS, 60.0), widest))

    # Whole steps are rounded down, so that the truth may be almost a step larger; a range that is not 0 is 1 at least.
    low, high = max(power(found - off), wanted.step), max(power(found + off + 1), wanted.step)
    value = max(power(found), wanted.step)
    return _value(wanted.column, value, confidence, "measured", note, low=low, high=high)


def _value(
    name: str, value: Any, confidence: float, basis: str, note: str, *, low: Any = None, high: Any = None
) -> SingleValue:
    return SingleValue(name=name, value=value, low=low, high=high, confidence=confidence, basis=basis, note=note)
