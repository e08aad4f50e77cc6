"""`cs.release_value`: one private value of a table, with its interval, or the reason why there is none."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from conspectus.curator.acts import relation_of
from conspectus.curator.curator import Curator
from conspectus.curator.truth import Progress, Truth
from conspectus.data.sources import Table
from conspectus.mechanisms.mechanism import ProblemError
from conspectus.privacy.accounting import Allowance, Declared, Filter
from conspectus.privacy.guarantee import Budget, large_epsilon
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.privacy.noise import Sampler, SystemSampler
from conspectus.releases.answer import checked_confidence
from conspectus.releases.planning import check_table, neighbours_of
from conspectus.releases.run import DRAFTED, reserved

from .aggregated import Aggregated, AggregateError
from .column_values import ColumnValue
from .value_plan import RULES, ValuePlan, Wanted, score_of
from .value_planning import plan_of
from .value_release import ValueRelease


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
    outcomes = drawn(curator, plan)
    if reservation is not None:
        reservation.settle()
    said = (*_warnings(wanted), *large_epsilon(budget))
    return ValueRelease(
        plan=plan,
        outcomes=outcomes,
        confidence=confidence,
        guarantee=allowance.guarantee(str(table.schema.unit), said, private=sampler.private),
        events=allowance.events,
    )


def _allowed(table: Table, plan: ValuePlan, ledger: Ledger | None) -> tuple[Allowance, Reservation | None]:
    """What may be spent, and where acts are written down before they are drawn."""
    budget, neighbours = plan.budget, plan.neighbours
    if ledger is None:
        return (Declared(plan.declared, budget, neighbours) if plan.declared else Filter.of(budget, neighbours)), None
    label = f"{plan.mechanism}: the {plan.wanted.kind} of {', '.join(plan.wanted.names)}"[:120]
    return reserved(table, ledger, budget, neighbours, label, plan.declared if plan.tests else ())


def _warnings(wanted: Wanted) -> tuple[str, ...]:
    foreign = "a function of one's own ran on the rows: what it stored or sent is outside the guarantee"
    said = ((isinstance(wanted, Aggregated), foreign), (wanted.schema.draft, DRAFTED))
    return tuple(text for holds, text in said if holds)


def drawn(curator: Curator, plan: ValuePlan) -> tuple[int | None, ...]:
    """What the acts of a plan give."""
    wanted = plan.wanted
    if plan.law is not None:
        assert isinstance(wanted, Aggregated)
        return tuple(curator.measure(wanted.sums(), plan.law).tolist())
    if plan.epsilon is not None:
        return tuple(_chosen(curator, plan, place, plan.epsilon) for place in range(len(wanted.names)))
    found: list[int | None] = []
    for test in plan.tests:
        shown = curator.stable_value(test.what, test.scale, test.threshold, noise_scale=test.noise_scale)
        found.append(shown)
        if wanted.kind == "interquartile-range" and shown is not None:
            break  # a scale that was found is not looked for again
    return tuple(found)


def _chosen(curator: Curator, plan: ValuePlan, place: int, epsilon: Fraction) -> int:
    score, rule = score_of(plan.wanted, place), RULES[plan.mechanism]
    if rule == "exponential":
        return int(curator.select(score, epsilon)[0])
    return int(curator.select(score, epsilon, barred=np.zeros(0, dtype=np.int64), rule=rule)[0])
