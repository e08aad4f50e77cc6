"""`cs.best`: the rule that predicts a label best, chosen by the exponential mechanism on the table itself (§11.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.top import Top
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.queries.language.from_sql import sql
from conspectus.synopses.measured_sums import splits_rows
from conspectus.synopses.noisy_answers import NoisyAnswers

from .cells.cell_estimates import CellCounts, Interval, Values, ratio
from .learning import agreement_of, check_rules
from .planning import check_table
from .release import Release
from .run import release


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The rule that was chosen, and how good it is.

    Attributes:
        position: Which of the rules it is.
        hypothesis: The rule itself.
        error: The share of rows on which it is not the label, measured afresh; None where no budget was left for that.
        low: The true share is at least this, with the stated confidence; None where there is no such share.
        high: The true share is at most this.
        excess: With probability 0.95, the share of rows on which the best rule is right and this one is not, less the
            other way round, is at most this (0.94 where the number of rows is private, and was measured too). 1 where
            nothing better is known.
        generalisation: With probability 0.95, on the people whom the rows were drawn from, the error of every rule is
            within this of its error on the rows (0.94 as above). 1 where nothing better is known.
        release: Everything that was published, with its guarantee.
    """

    position: int
    hypothesis: str
    error: float | None
    low: float | None
    high: float | None
    excess: float
    generalisation: float
    release: Release


def best(
    table: Any,
    hypotheses: Sequence[str],
    label: str,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    counts: float = 0.2,
    neighbours: str | None = None,
    ledger: str | Path | Ledger | None = None,
    confidence: float = 0.95,
) -> Learned:
    """Choose the rule that agrees best with a label on a table, by the exponential mechanism.

    The noise grows with the logarithm of the number of rules alone, and there may be rules about any columns together.
    `release.best` says the same of a release that is there already, at no further cost, and less exactly.

    Args:
        table: What `cs.open_table` opened.
        hypotheses: SQL predicates over the columns, such as "age > 50 AND smoker".
        label: The predicate that they should predict, such as "ill". A row where either is missing is an error.
        epsilon: The privacy loss ε. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee.
        rho: The concentrated privacy loss ρ, in place of ε.
        counts: The share of the budget that measures the error of the rule that was chosen; 0 for its name alone.
        neighbours: "replace" or "add-remove": what one person may change. None means the schema's, else "replace".
        ledger: The ledger of this table, or its path: it caps all that is ever released, and is debited first.
        confidence: The probability, over the noise, with which the interval of the error holds the truth.

    Returns:
        The rule, its error with an interval, how much worse it may be than the best one, and the release.

    Raises:
        HypothesisError: There is no rule.
        NotAPredicate: A rule, or the label, is not a predicate over the columns.
        BudgetError: The budget is none.
        SettingError: `counts` is out of range.
        BudgetExceeded: The ledger has not enough left. It is as it was.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> columns = {name: {"type": "boolean"} for name in ("smoker", "old", "ill")}
        >>> schema = cs.Schema.from_dict({"name": "patients", "columns": columns})
        >>> seen = {"smoker": [True, False] * 500, "old": [True] * 500 + [False] * 500, "ill": [True, False] * 500}
        >>> table = cs.open_table(pa.table(seen), schema)
        >>> cs.best(table, ["smoker", "old", "smoker AND old"], "ill", epsilon=1.0).hypothesis
        'smoker'
    """
    check_table(table, "cs.best")
    check_rules(hypotheses)
    agreements = [agreement_of(rule, label) for rule in hypotheses]
    made = release(
        table,
        sql(table.schema, agreements),
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mechanism=Top(count=1, rule="exponential", counts=counts, rest=True),
        neighbours=neighbours,
        ledger=ledger,
    )
    [position] = made.winners
    total = made.synopsis.total
    rows = total.value - total.margin(1 - FAILURE / 5)  # exact where it is public
    error = _error(made, agreements[position], confidence) if counts else None
    return Learned(
        position=position,
        hypothesis=hypotheses[position],
        error=None if error is None else error.value,
        low=None if error is None else error.low,
        high=None if error is None else error.high,
        excess=_share(made.parameters["within"], rows),
        generalisation=_share(math.sqrt(math.log(2 * len(hypotheses) / FAILURE) * max(rows, 0.0) / 2), rows),
        release=made,
    )


def _share(count: float, rows: float) -> float:
    """A bound in counts as one in shares of the rows; no share is beyond 1."""
    return min(count / rows, 1.0) if rows > 0 else 1.0


def _error(made: Release, agreement: str, confidence: float) -> Interval:
    """The share of the rows outside of the question that was chosen.

    Where right and wrong rows were both counted, it is the one over both: Fieller's interval.
    """
    noisy = made.synopsis
    if isinstance(noisy, NoisyAnswers) and not noisy.total.exact and splits_rows(noisy.workload.blocks[0]):
        cells = CellCounts(counts=noisy.counts, measured=noisy.counts, law=noisy.noise[0], grid=noisy.grids[0])
        return ratio(cells, Values.of(np.array([0.0, 1.0])), np.ones(2), 1 - confidence)
    held = made.ask(agreement, confidence=confidence)
    right = Interval(value=held.fraction, low=held.low, high=held.high, basis=held.basis)
    wrong = right.scaled(-1.0).moved(1.0)
    ends = (None if end is None else min(max(end, 0.0), 1.0) for end in (wrong.value, wrong.low, wrong.high))
    value, low, high = ends
    return Interval(value=value, low=low, high=high, basis=held.basis)
