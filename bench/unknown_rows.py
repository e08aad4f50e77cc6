"""Which number of rows to plan for where it is private and not declared: `python -m bench.unknown_rows`.

For each number that could be assumed the pick that follows from it is held against what every mechanism claims at the
true number, for tables of 10,000 to 1,000,000 rows. No table is read: all of it are claims of the planner.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import conspectus as cs
from bench import markdown, record
from conspectus.mechanisms.choosing import make
from conspectus.privacy.guarantee import Budget
from conspectus.queries.workload import Workload
from conspectus.releases.planning import problem_of, rank

TRUE = (10_000, 30_000, 100_000, 300_000, 1_000_000)
ASSUMED = (10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 1_000_000)
PLAYERS = ("laplace", "gaussian", "histogram", "mwem", "projection", "boosting", "adaptive")
TWO_VALUED, MIXED, MANY = (2,) * 12, (2, 3, 5, 7, 10, 16, 40, 50), (6, 10, 14, 3, 11, 4, 6)
"""Sizes of columns: of a survey, of an ordinary table, and of Diabetic."""

NOTE = (
    "Where the number of rows is private and not declared, the planner assumes one. For each number that it could "
    "assume: what its pick expects over what the best mechanism expects at the true number, {cases} times: tables of "
    "10,000 to 1,000,000 rows, three schemas, ids of 1, 3 and 10 rows, three workloads, ε of 0.1, 1 and 4, with a δ "
    "and without. All of it are claims; no table is read."
)


def problems() -> Iterator[tuple[cs.Schema, Workload, float, float]]:
    """Schemas of rows and of ids with several rows each, workloads and budgets."""
    for sizes in (TWO_VALUED, MIXED, MANY):
        for most in (1, 3, 10):
            columns = {f"c{i}": {"type": "integer", "min": 1, "max": size} for i, size in enumerate(sizes)}
            schema = cs.Schema.from_dict(
                {"name": "made", "unit": {"kind": "id", "column": "id", "max_rows": most}, "columns": columns}
            )
            asked = (cs.marginals(schema, 1), cs.marginals(schema, 2), cs.random_conjunctions(schema, 3, 500, 1))
            for workload in asked:
                for epsilon in (0.1, 1.0, 4.0):
                    for delta in (0.0, 1e-6):
                        yield schema, workload, epsilon, delta


def claims(schema: cs.Schema, workload: Workload, epsilon: float, delta: float, rows: int) -> list[tuple[str, float]]:
    """What each mechanism expects, by the error that is compared; the pick first."""
    budget = Budget(epsilon=epsilon, delta=delta, rho=None)
    problem = problem_of(schema, workload, budget=budget, neighbours="add-remove", rows=rows)
    found = rank(problem, [make(name, {}) for name in PLAYERS])[1].claims
    mean = problem.objective == "mean"
    return [(claim.mechanism, claim.expected_mean if mean else claim.expected_max) for claim in found]


def main() -> None:
    regrets: dict[int, list[float]] = {assumed: [] for assumed in ASSUMED}
    for asked in problems():
        found = {rows: claims(*asked, rows=rows) for rows in sorted({*TRUE, *ASSUMED})}
        for assumed in ASSUMED:
            for rows in TRUE:
                least = min(error for _, error in found[rows])
                regrets[assumed].append(dict(found[rows])[found[assumed][0][0]] / max(least, 1e-9))
    lines = []
    for assumed, each in regrets.items():
        mean = math.exp(sum(map(math.log, each)) / len(each))
        above = [str(sum(regret > level for regret in each)) for level in (1.1, 1.3)]
        lines.append((f"{assumed:,}", f"{mean:.3f}", *above, f"{max(each):.2f}"))
    titles = ("planned for", "geometric mean", "above 1.1", "above 1.3", "largest")
    text = f"{NOTE.format(cases=len(regrets[ASSUMED[0]]))}\n\n{markdown(titles, lines)}"
    record("unknown-rows", "Planned without the number of rows", text, "python -m bench.unknown_rows")


if __name__ == "__main__":
    main()
