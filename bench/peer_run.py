"""One run of a peer in its own environment: needs numpy, pandas and the peer, and nothing of this project.

    PYTHON bench/peer_run.py PEER CODES.npz EPSILON DELTA ORDER RESULT.json

PEER is opendp-mst, opendp-aim, opendp-pairs (AIM that measures pairs, with models of 2 MB, so that it ends sooner),
dpmm-mst or dpmm-aim. CODES.npz has a matrix `codes`, one row a record, and `sizes`, the
number of codes of each column. The result has the errors of all marginals of this order, the seconds until the peer had
its model, and beside it, as RESULT.npz, as many synthetic rows as there are records. `bench/peers.py` calls this.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from math import log
from pathlib import Path

import numpy as np

Tables = Callable[[tuple[int, ...]], np.ndarray]
"""From columns to a table of shares over them."""


def tight_rho(epsilon: float, delta: float) -> float:
    """The largest ρ whose conversion at δ is at most ε (Canonne, Kamath & Steinke 2020): as generous as dpmm's own."""

    def reached(rho: float) -> float:
        # The least log δ over the orders α of the conversion.
        orders = 1 + np.exp(np.linspace(-9, 9, 4000))
        return float(
            np.min((orders - 1) * (orders * rho - epsilon) + (orders - 1) * np.log1p(-1 / orders) - np.log(orders))
        )

    low, high = 0.0, epsilon + 1
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) <= log(delta) else (low, middle)
    return low


def opendp(kind: str, codes: np.ndarray, sizes: np.ndarray, epsilon: float, delta: float, order: int):
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    names = [f"c{place}" for place in range(len(sizes))]
    frame = pl.DataFrame({name: codes[:, place].astype(np.int64) for place, name in enumerate(names)}).lazy()
    rho = tight_rho(epsilon, delta)
    context = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho)
    )
    algorithms = {
        "mst": dp.mbi.MST,
        "aim": partial(dp.mbi.AIM, queries=order),
        "pairs": partial(dp.mbi.AIM, queries=2, max_size=2.0, rounds=2 * len(sizes)),
    }
    keys = {name: list(range(int(size))) for name, size in zip(names, sizes)}
    table = context.query(rho=rho).contingency_table(keys=keys, algorithm=algorithms[kind]()).release()

    # Its model, multiplied out by numpy: `table.project` compiles anew for every marginal.
    from opt_einsum import contract

    place = {name: c for c, name in enumerate(names)}
    factors = []
    for clique in table.model.potentials.cliques:
        factor = table.model.potentials[clique]
        logs = np.asarray(factor.values, dtype=np.float64)
        factors += [np.exp(logs - logs.max()), tuple(place[name] for name in factor.domain.attributes)]

    def tables(columns: tuple[int, ...]) -> np.ndarray:
        found = np.asarray(contract(*factors, columns))
        # Its domains have one value more, for what is missing.
        found = found[tuple(slice(0, int(sizes[c])) for c in columns)]
        return found / found.sum()

    def rows() -> np.ndarray:
        made = table.synthesize(rows=len(codes))
        return np.stack([made[name].fill_null(0).to_numpy().astype(np.int64) for name in names], axis=1)

    return tables, rows


def dpmm(kind: str, codes: np.ndarray, sizes: np.ndarray, epsilon: float, delta: float, order: int):
    import pandas as pd
    from dpmm.models.aim import AIM
    from dpmm.models.mst import MST

    names = [f"c{place}" for place in range(len(sizes))]
    frame = pd.DataFrame(codes, columns=names)
    domain = {name: int(size) for name, size in zip(names, sizes)}
    settings = {"epsilon": epsilon, "delta": delta, "domain": domain, "n_jobs": 1}
    model = MST(**settings) if kind == "mst" else AIM(**settings, degree=order)
    model.fit(frame)

    def rows(times: int = 1) -> np.ndarray:
        made = model.generate(n_records=times * len(codes))
        return made[names].to_numpy().astype(np.int64)

    # Its model may have put values together: ten times as many rows stand for it.
    many = rows(10)

    def tables(columns: tuple[int, ...]) -> np.ndarray:
        return counted(many, sizes, columns)

    return tables, rows


def counted(codes: np.ndarray, sizes: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    """The table of some columns, in shares."""
    shape = tuple(int(sizes[c]) for c in columns)
    flat = np.ravel_multi_index(tuple(codes[:, c] for c in columns), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape) / len(codes)


def main() -> None:
    peer, source, epsilon, delta, order, target = sys.argv[1:]
    with np.load(source) as held:
        codes, sizes = held["codes"].astype(np.int64), held["sizes"].astype(np.int64)
    package, kind = peer.split("-")
    begun, used = time.perf_counter(), time.process_time()
    tables, rows = (opendp if package == "opendp" else dpmm)(
        kind, codes, sizes, float(epsilon), float(delta), int(order)
    )
    clock, processor = time.perf_counter() - begun, time.process_time() - used
    result = {"processor": processor, "clock": clock}
    result["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.savez_compressed(Path(target).with_suffix(".npz"), codes=rows())
    apart, largest = [], 0.0
    for columns in combinations(range(len(sizes)), int(order)):
        errors = np.abs(tables(columns) - counted(codes, sizes, columns))
        apart.append(float(errors.sum()))
        largest = max(largest, float(errors.max()))
    result |= {"mean": float(np.mean(apart)), "largest": largest, "worst": max(apart)}
    Path(target).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
