"""10 of 10,000 counts: which are found by choices, and which by noise on all of them."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import markdown, record
from conspectus.counting.counters import count

ROWS, QUESTIONS, FIND, RUNS = 100_000, 10_000, 10, 10
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0)
DELTA = 1e-6


def main() -> None:
    lines = [line for title, *case in cases() for line in _lines(title, *case)]
    heads = ["counts", "ε", "`top`, pure", "`top`, δ = 1e-6", "noise on all, δ = 1e-6", "seconds of `top`"]
    note = (
        f"{ROWS:,} made rows, replaced; {RUNS} runs each. Of the {FIND} largest of {QUESTIONS:,} counts: how many were "
        "found on average, and in brackets by how many rows the smallest of those found falls short of the tenth "
        "largest count, on average. `top` finds names alone (`counts=0`). *Noise on all* releases every count with "
        "`gaussian` and takes the ten largest. The cells of one marginal exclude one another, so that one person moves "
        "two of them, and noise on all of them is small; of conjunctions one person may move all."
    )
    record("top", "The largest of many counts", f"{markdown(heads, lines)}\n\n{note}", "python -m bench top")


def cases():
    """Title, schema, table, workload."""
    rng = np.random.Generator(np.random.PCG64(11))
    columns = {"value": {"type": "integer", "min": 0, "max": QUESTIONS - 1}}
    schema = cs.Schema.from_dict({"name": "zipf", "columns": columns})
    weights = 1 / np.arange(1, QUESTIONS + 1) ** 0.8
    drawn = rng.choice(rng.permutation(QUESTIONS), ROWS, p=weights / weights.sum())
    yield "cells of one marginal", schema, pa.table({"value": drawn}), cs.marginal(schema, ["value"])
    names = [f"b{i}" for i in range(60)]
    wide = cs.Schema.from_dict({"name": "wide", "columns": {name: {"type": "boolean"} for name in names}})
    rates = rng.beta(1.5, 4, len(names))
    mood = rng.random(ROWS)[:, None] < 0.3
    bits = rng.random((ROWS, len(names))) < np.where(mood, np.minimum(1, 1.8 * rates), rates)
    data = pa.table({name: bits[:, i] for i, name in enumerate(names)})
    asked = cs.random_conjunctions(wide, 3, QUESTIONS, public_seed=1)
    yield "conjunctions of three columns", wide, data, asked


def _lines(title, schema, data, asked):
    with cs.open_table(data, schema) as table:
        truth, _ = count(asked, table.chunks())
    best = np.sort(truth)[::-1][:FIND]

    def told(found) -> str:
        mean = np.mean([np.sum(truth[list(places)] >= best[-1]) for places in found])
        short = np.mean([best[-1] - truth[list(places)].min() for places in found])
        return f"{mean:.1f} ({max(short, 0):,.0f})"

    for epsilon in EPSILONS:
        found: dict[str, list] = {"pure": [], "delta": [], "all": []}
        began = time.process_time()
        for delta, name in ((0.0, "pure"), (DELTA, "delta")):
            for _ in range(RUNS):
                table = cs.open_table(data, schema)
                settings = {"mechanism": "top", "count": FIND, "counts": 0}
                found[name].append(cs.release(table, asked, epsilon=epsilon, delta=delta, **settings).winners)
        spent = (time.process_time() - began) / (2 * RUNS)
        table = cs.open_table(data, schema)
        noisy = cs.release(table, asked, epsilon=epsilon, delta=DELTA, mechanism="gaussian")
        sigma, rng = noisy.parameters["scale"], np.random.Generator(np.random.PCG64(int(1000 * epsilon)))
        found["all"] = [np.argsort(-(truth + rng.normal(0, sigma, len(truth))))[:FIND] for _ in range(RUNS)]
        yield [title, f"{epsilon:g}", *(told(found[name]) for name in found), f"{spent:.2f}"]
