"""SmallDB: the largest universes and workloads that it serves in a minute, with its error and its proved bound."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import markdown, record
from conspectus.counting.counters import count
from conspectus.data.domain import in_words
from conspectus.mechanisms.small_db.signatures import signatures
from conspectus.privacy.guarantee import Budget
from conspectus.releases.planning import problem_of

ROWS, EPSILON = 10_000, 1.0
NOTE = (
    f"{ROWS:,} made rows, ε = {EPSILON:g}, δ = 0, replace; one run each, and seconds are of the whole release. *Kinds* "
    "are the records that the questions tell apart, *databases* the range that is drawn from exactly. The bound is "
    "proved, and holds with probability 0.95; `laplace` is what its claim expects for the same questions (1 at most)."
)


def main() -> None:
    lines = [_line(*case) for case in cases()]
    heads = ["questions", "records", "kinds", "rows drawn", "databases", "how", "seconds", "max error", "bound"]
    heads.append("`laplace`")
    record("small-db", "SmallDB in a minute", f"{markdown(heads, lines)}\n\n{NOTE}", "python -m bench small_db")


def cases():
    """Title, schema and table, workload, settings."""
    ages = _made({"a": 1000})
    yield "1,000 prefixes of a column", *ages, cs.prefixes(ages[0], "a"), {"size": 64}
    fine = _made({"a": 4000})
    yield "4,000 prefixes of a column", *fine, cs.prefixes(fine[0], "a"), {"size": 24}
    wide = _made({"a": 2000, "b": 4})
    yield "8,000 cells of a marginal", *wide, cs.marginal(wide[0], ["a", "b"]), {"size": 12}
    bits = _made({f"b{i}": 2 for i in range(6)})
    yield "all pairs of 6 two-valued columns", *bits, cs.marginals(bits[0], 2), {"size": 6}
    many = _made({f"c{i}": 10 for i in range(12)})
    few = ["c1 < 4 AND c2 > 3", "c3 = 4 OR c9 < 2", "c8 < 5 AND c5 < 5 AND c1 > 2", "c7 = 2 OR c6 = 3"]
    three = cs.sql(many[0], few[:3])
    yield "3 questions about 12 columns of ten values", *many, three, {"size": 32}
    read = cs.sql(many[0], [*few[:3], " OR ".join(f"c{i} = 9" for i in range(12))])
    yield "4 questions about all 12 of them, every record", *many, read, {"size": 16, "merge": False}


def _made(sizes: dict[str, int]) -> tuple[cs.Schema, object]:
    """A table of independent columns, low codes more often than high ones."""
    rng = np.random.Generator(np.random.PCG64(5))
    columns = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in sizes.items()}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    values = {name: np.floor(size * rng.beta(1, 2, ROWS)).astype(np.int64) for name, size in sizes.items()}
    return schema, cs.open_table(pa.table(values), schema)


def _line(title, schema, table, workload, settings) -> list[str]:
    counts, rows = count(workload, table.chunks())
    start = time.perf_counter()
    release = cs.release(table, workload, epsilon=EPSILON, mechanism="small-db", **settings)
    seconds = time.perf_counter() - start
    problem = problem_of(schema, workload, budget=Budget(epsilon=EPSILON), neighbours=None, rows=rows)
    rival = cs.plan(schema, workload, rows=rows, epsilon=EPSILON, mechanism="laplace").best.expected_max / rows
    known = release.parameters
    line = [
        title,
        in_words(problem.cells),
        in_words(len(signatures(workload.distinct()))),
        str(known["size"]),
        known["databases"],
        known["method"],
        f"{seconds:.1f}",
        f"{np.abs(release.answers - counts / rows).max():.4f}",
        f"{release.claim.bound.value:.3f}",
        f"{rival:.4f}",
    ]
    print(line, flush=True)
    return line
