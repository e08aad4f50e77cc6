"""Peers on the tables of `ordinary`: each run in the peer's own environment, under the same (ε, δ) and neighbours.

    CONSPECTUS_PEERS="opendp=PYTHON,dpmm=PYTHON" python -m bench.peers [TABLE:PEER:EPSILON[:RUNS] …]

writes numbers to `bench/peer_numbers.json`, from where `python -m bench ordinary` takes them, and synthetic rows to the
folder that CONSPECTUS_PEER_ROWS names, from where `python -m bench rows_quality` takes them. `PEER_LIMIT` is the number
of processor seconds after which a run is ended; no further run of its line is begun. `bench/README.md` says how to
make the environments.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.ordinary import PEERS
from bench.ordinary_tables import CASES, Case
from bench.rows_quality import TARGETS, parted

LIMIT = float(os.environ.get("PEER_LIMIT", "1800"))
SCRIPT = Path(__file__).parent / "peer_run.py"
RUNS = (
    *(f"{table}:{peer}:1:5" for table in ("adult", "small") for peer in ("opendp-mst", "dpmm-mst", "opendp-aim")),
    *(f"{table}:opendp-mst:1:5" for table in ("nltcs", "census", "diabetic", "acs")),
    "adult:opendp-pairs:1",
    *(f"{table}-train:{peer}:1:5" for table in TARGETS for peer in ("opendp-mst", "dpmm-mst", "opendp-pairs")),
)
"""What is run where no run is named: five runs a line, and as many sets of rows for the classifier."""


def main() -> None:
    environments = dict(part.split("=", 1) for part in os.environ.get("CONSPECTUS_PEERS", "").split(",") if part)
    if not environments:
        raise SystemExit("set CONSPECTUS_PEERS to the Python of each peer; bench/README.md says how to make them")
    for run in sys.argv[1:] or RUNS:
        table, peer, epsilon, *times = run.split(":")
        package = peer.split("-")[0]
        if package not in environments:
            continue
        for number in range(int(times[0]) if times else 1):
            found = _run(environments[package], table, peer, float(epsilon), number)
            if "mean" not in found:
                break


def _run(python: str, table: str, peer: str, epsilon: float, number: int) -> dict:
    """One run, which is written down: its errors and seconds, the limit that ended it, or that it failed."""
    name = table.removesuffix("-train")
    case = CASES[name]()
    codes, sizes = case.matrix()
    if table.endswith("-train"):
        codes, sizes = _training(name, case, number)
    folder = Path(os.environ.get("CONSPECTUS_PEER_ROWS") or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    source, target = folder / f"{table}-{number}.npz", folder / f"{table}-{peer}-{epsilon:g}-{number}.json"
    np.savez_compressed(source, codes=codes.astype(np.int32), sizes=sizes)
    # -P: our folder is not on the path, where `bench/numbers.py` would stand before the standard library's.
    terms = (SCRIPT, peer, source, epsilon, case.delta, case.order, target)
    command = [python, "-P", *map(str, terms)]
    threads = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    most = int(LIMIT)
    done = subprocess.run(
        command,
        env=os.environ | threads,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)),
        check=False,
    )
    found = {"table": table, "peer": peer, "epsilon": epsilon, "order": case.order, "run": number}
    if done.returncode == 0:
        found |= json.loads(target.read_text())
    elif done.returncode < 0:
        found["limit"] = LIMIT
    else:
        found["failed"] = True
    print(found, flush=True)
    numbers = json.loads(PEERS.read_text()) if PEERS.exists() else []
    same = ("table", "peer", "epsilon", "order", "run")
    numbers = [one for one in numbers if any(one[key] != found[key] for key in same)]
    PEERS.write_text(json.dumps([*numbers, found], indent=1) + "\n")
    return found


def _training(name: str, case: Case, run: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a classifier is trained on in this run of `rows_quality`."""
    kept, _, sizes = parted(name, case, run)
    return kept, sizes


if __name__ == "__main__":
    main()
