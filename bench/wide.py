"""User–item matrices: 500,000 random conjunctions of three literals with negations on made and on real pairs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import conspectus as cs
from bench import data_file, markdown, record
from bench.children import measured
from bench.made import ITEMS, USERS, netflix
from conspectus.queries.counting import count

QUERIES = 500_000
DRAWS = 100
REAL = {
    "Gowalla check-ins": ("gowalla_lightgcn.parquet", 29_858),
    "Amazon book": ("amazon-book_kgat.parquet", 70_679),
    "Amazon instant video": ("amazon-instant-video_2014_pos.parquet", 390_399),
}


def main() -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.parquet"
        measured(lambda: {"pairs": netflix(path)})
        lines.append(_line("Netflix shape, made", measured(lambda: _released(path, USERS, range(ITEMS)))))
    for name, (file, users) in REAL.items():
        source = data_file(file)
        lines.append(_line(name, measured(lambda source=source, users=users: _released(source, users, None))))
    heads = ["table", "users × items", "pairs", "open", "release", "in all", "peak memory"]
    heads += ["average error", "max error", "zeros", "empty rows", "from marginals", "exact product"]
    note = (
        f"{QUERIES:,} random conjunctions of 3 literals, each negated with probability ½, `dual-query` at ε = "
        f"1, δ = 0.001, one user replaced, with `untouched=\"first\"` and {DRAWS} draws a round: a row has no "
        "item that the draws do not ask for. Opening reads the pairs once; the release counts all questions "
        "and plays. Seconds on two cores. Average errors beside it: of the paper's baseline that answers 0 "
        "everywhere; of rows without any item; of the same mechanism as it comes, whose rows start from noisy "
        "one-way marginals; and, not private, of the product of the exact one-way marginals, which is what "
        "independent items would give. Items of the real tables are taken from the data, those of the made "
        "one are declared. Made: popularity by a power law, activity by a log-normal, the users of an item "
        "drawn by activity."
    )
    record("wide", "User–item tables", markdown(heads, lines) + "\n\n" + note, "python -m bench wide")


def _released(source: Path, users: int, items: Any) -> dict[str, Any]:
    start = time.perf_counter()
    table = cs.open_pairs(source, users=users, items=items)
    pairs = sum(int(chunk.ones.sum()) for chunk in table.chunks())
    opened = time.perf_counter()
    workload = cs.random_conjunctions(table.schema, 3, QUERIES, public_seed=1, negations=True)
    asked = time.perf_counter()
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "mechanism": "dual-query"}
    release = cs.release(table, workload, **budget, untouched="first", draws=DRAWS)
    done = time.perf_counter()
    other = cs.release(table, workload, **budget)
    counts, rows = count(workload, table.chunks())
    truth = counts / rows
    block = workload.blocks[0]
    ones = sum(chunk.ones for chunk in table.chunks()) / rows
    held = np.array([ones[a.column] if a.codes == (1,) else 1 - ones[a.column] for a in block.literals])
    held_codes = np.array([literal.codes[0] for literal in block.literals])
    error = np.abs(release.answers - truth)
    return {
        "users": rows,
        "items": len(table.domain),
        "pairs": pairs,
        "open": opened - start,
        "release": done - asked,
        "all": done - start,
        "average": float(error.mean()),
        "max": float(error.max()),
        "zeros": float(truth.mean()),
        "empty": float(np.abs((held_codes[block.terms] == 0).all(axis=1) - truth).mean()),
        "marginals": float(np.abs(other.answers - truth).mean()),
        "product": float(np.abs(held[block.terms].prod(axis=1) - truth).mean()),
        "parameters": str(release.parameters),
    }


def _line(name: str, found: dict[str, Any]) -> list[str]:
    print(name, found)
    return [
        name,
        f"{found['users']:,} × {found['items']:,}",
        f"{found['pairs']:,}",
        *(f"{found[part]:.0f} s" for part in ("open", "release", "all")),
        f"{found['peak'] / 1024:.1f} GiB",
        *(f"{found[part]:.4f}" for part in ("average", "max", "zeros", "empty", "marginals", "product")),
    ]


if __name__ == "__main__":
    main()
