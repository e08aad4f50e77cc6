"""`cs.best`: the rule that predicts a label best, chosen by the exponential mechanism on the table itself (§11.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.top import Top
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.queries.language.from_sql import sql

from .learning import check_rules
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
            other way round, is at most this (0.94 where the number of rows is private, and was measured too). None
            where there may be no rows.
        generalisation: With probability 0.95, on the people whom the rows were drawn from, the error of every rule is
            within this of its error on the rows (0.94 as above). None where there may be no rows.
        release: Everything that was published, with its guarantee.
    """

    position: int
    hypothesis: str
    error: float | None
    low: float | None
    high: float | None
    excess: float | None
    generalisation: float | None
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
    agreements = [f"(({rule}) AND ({label})) OR (NOT ({rule}) AND NOT ({label}))" for rule in hypotheses]
    made = release(
        table,
        sql(table.schema, agreements),
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mechanism=Top(count=1, rule="exponential", counts=counts),
        neighbours=neighbours,
        ledger=ledger,
    )
    [position] = made.winners
    total = made.synopsis.total
    rows = total.value - total.margin(1 - FAILURE / 5)  # exact where it is public
    held = made.ask(agreements[position], confidence=confidence) if counts else None
    return Learned(
        position=position,
        hypothesis=hypotheses[position],
        error=None if held is None else 1 - held.fraction,
        low=None if held is None or held.high is None else 1 - held.high,
        high=None if held is None or held.low is None else 1 - held.low,
        excess=made.parameters["within"] / rows if rows > 0 else None,
        generalisation=math.sqrt(math.log(2 * len(hypotheses) / FAILURE) / (2 * rows)) if rows > 0 else None,
        release=made,
    )
