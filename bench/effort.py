"""What a release takes and what its file holds, beside what the plan said: seconds of the processor, and bytes.

`python -m bench.effort` writes the table; `made` alone prints what the constants were chosen on.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import conspectus as cs
from bench import markdown, record
from bench.planner_cases import Case, adult, column, groups, made, nltcs
from conspectus.mechanisms.mechanism import NoMechanism

MOST_SECONDS = 20.0
"""A mechanism that took longer than this on a case is not run on it again."""


def made_cases() -> Iterator[Case]:
    """Those that the constants were chosen on."""
    schema, table = made("chain", 20_000)
    yield Case("16 bits, 20,000 rows, 3-way", table, cs.marginals(schema, 3))
    yield Case("16 bits, 20,000 rows, 3-way, δ = 0", table, cs.marginals(schema, 3), delta=0.0)
    yield Case("16 bits, 20,000 rows, 2,000 conjunctions", table, cs.random_conjunctions(schema, 4, 2_000, 1))
    schema, table = made("chain", 500_000)
    yield Case("16 bits, 500,000 rows, 2-way", table, cs.marginals(schema, 2))
    schema, table = made("independent", 20_000, columns=6)
    yield Case("6 bits, 20,000 rows, 2-way", table, cs.marginals(schema, 2))
    schema, table = groups()
    yield Case("sizes 12, 10 and 100, 2-way", table, cs.marginals(schema, 2))
    for bins in (64, 1_024):
        schema, table = column(bins)
        yield Case(f"prefixes of {bins:,} bins", table, cs.prefixes(schema, "x"))


def other_cases() -> Iterator[Case]:
    schema, table = nltcs()
    yield Case("NLTCS, 3-way", table, cs.marginals(schema, 3))
    yield Case("NLTCS, 5-way", table, cs.marginals(schema, 5))
    yield Case("NLTCS, 10,000 conjunctions", table, cs.random_conjunctions(schema, 4, 10_000, 1))
    schema, table = adult()
    yield Case("Adult, 7 columns, 3-way", table, cs.marginals(schema, 3))
    yield Case("Adult, 7 columns, 2-way", table, cs.marginals(schema, 2))


def run(case: Case, folder: Path) -> Iterator[list[str]]:
    """A line for each mechanism that can serve a case."""
    rows = sum(chunk.rows for chunk in case.table.chunks())
    plan = cs.plan(case.table.schema, case.workload, rows=rows, **case.budget)
    for claim in plan.claims:
        said = plan.efforts[claim.mechanism]
        if said.seconds > MOST_SECONDS:
            continue
        try:
            cs.release(case.table, case.workload, mechanism=claim.mechanism, rows=rows, **case.budget)  # compiles
            start = time.process_time()
            release = cs.release(case.table, case.workload, mechanism=claim.mechanism, rows=rows, **case.budget)
            seconds = time.process_time() - start
        except NoMechanism:
            continue
        release.save(folder / "one.synopsis")
        size = (folder / "one.synopsis").stat().st_size
        line = [
            case.name,
            f"`{claim.mechanism}`",
            f"{seconds:.2f} ({said.seconds:.2f})",
            f"{size:,} ({said.file_bytes:,})",
        ]
        print(*line, f"{said.seconds / seconds:.2f} {said.file_bytes / size:.2f}", sep=" | ", flush=True)
        yield line


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        lines = [line for case in made_cases() for line in run(case, Path(name))] if "made" in sys.argv else []
        if lines:
            return
        lines = [line for case in other_cases() for line in run(case, Path(name))]
    note = (
        "Processor seconds of a release and bytes of its file, and in brackets what the plan said beforehand, from "
        "public facts alone. One run, after one that compiles. The constants were chosen on made tables "
        "(`python -m bench.effort made`)."
    )
    heads = ["questions", "mechanism", "seconds", "bytes"]
    record(
        "effort", "What a plan says of time and size", f"{note}\n\n{markdown(heads, lines)}", "python -m bench.effort"
    )


if __name__ == "__main__":
    main()
