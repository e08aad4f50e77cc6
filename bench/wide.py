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
from conspectus.counting.counters import count

QUERIES = 500_000
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
    heads = ["table", "users × items", "pairs", "open", "as it comes", "in all", "average", "max"]
    heads += ["from no item", "average", "max", "peak memory", "zeros", "empty rows", "exact product"]
    note = (
        f"{QUERIES:,} random conjunctions of 3 literals, each negated with probability ½, `dual-query` at ε = "
        "1, δ = 0.001, one user replaced; average and max error. As it comes, its rows start from noisy "
        "one-way marginals that it pays for; on the right they start without any item "
        '(`initial="first"`). Opening reads the pairs once; a release counts all questions and plays; in '
        "all also draws the questions. Seconds on two cores. Baselines are average errors: 0 everywhere, as "
        "in the paper; rows without any item; and, not private, the product of the exact one-way marginals, "
        "which is what independent items would give. Items of the real tables are taken from the data, those "
        "of the made one are declared. Made: popularity by a power law, activity by a log-normal, the users "
        "of an item drawn by activity."
    )
    record("wide", "User–item tables", markdown(heads, lines) + "\n\n" + note, "python -m bench wide")


def _released(source: Path, users: int, items: Any) -> dict[str, Any]:
    start = time.perf_counter()
    table = cs.open_pairs(source, users=users, items=items)
    pairs = sum(int(chunk.ones.sum()) for chunk in table.chunks())
    found: dict[str, Any] = {"pairs": pairs, "items": len(table.domain), "open": time.perf_counter() - start}
    workload = cs.random_conjunctions(table.schema, 3, QUERIES, public_seed=1, negations=True)
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "mechanism": "dual-query"}
    began = time.perf_counter()
    as_it_comes = cs.release(table, workload, **budget)
    done = time.perf_counter()
    found |= {"release": done - began, "all": done - start}
    from_no_item = cs.release(table, workload, **budget, initial="first")
    found["other"] = time.perf_counter() - done
    counts, rows = count(workload, table.chunks())
    truth = counts / rows
    for name, release in (("release", as_it_comes), ("other", from_no_item)):
        error = np.abs(release.answers - truth)
        found |= {f"{name}_average": float(error.mean()), f"{name}_max": float(error.max())}
    block = workload.blocks[0]
    shares = sum(chunk.ones for chunk in table.chunks()) / rows
    held = np.array([shares[a.column] if a.codes == (1,) else 1 - shares[a.column] for a in block.literals])
    absent = np.array([a.codes == (0,) for a in block.literals])
    baselines = {
        "zeros": np.zeros(len(truth)),
        "empty": absent[block.terms].all(axis=1),
        "product": held[block.terms].prod(axis=1),
    }
    return {
        **found,
        "users": rows,
        **{name: float(np.abs(answers - truth).mean()) for name, answers in baselines.items()},
        "parameters": str(as_it_comes.parameters),
    }


def _line(name: str, found: dict[str, Any]) -> list[str]:
    print(name, found)
    return [
        name,
        f"{found['users']:,} × {found['items']:,}",
        f"{found['pairs']:,}",
        *(f"{found[part]:.0f} s" for part in ("open", "release", "all")),
        *(f"{found[part]:.4f}" for part in ("release_average", "release_max")),
        f"{found['other']:.0f} s",
        *(f"{found[part]:.4f}" for part in ("other_average", "other_max")),
        f"{found['peak'] / 1024:.1f} GiB",
        *(f"{found[part]:.4f}" for part in ("zeros", "empty", "product")),
    ]


if __name__ == "__main__":
    main()
