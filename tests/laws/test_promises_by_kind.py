"""What is said of a release as a whole is true of every kind: what has no interval, and whether there are rows."""

from __future__ import annotations

import html
import itertools
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.made import needed, people

import conspectus as cs
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.registry import OFFLINE
from conspectus.report.usefulness import good_for
from conspectus.service import desk
from conspectus.service.describing import in_short
from conspectus.service.refusing import Refused
from conspectus.service.shelf import Published
from conspectus.streams.stream_file import StreamError
from conspectus.synopses.synopsis import CannotAnswer

ROWS = 400
LISTED = ["smoker AND age >= 42", "smoker OR ill", "region = 'north' AND ill"]
WORKLOADS = {
    "columns": lambda schema: cs.marginals(schema, 1),
    "pairs": lambda schema: cs.marginal(schema, ["region", "ill"]),
    "listed": lambda schema: cs.sql(schema, LISTED),
    "listed beside a table": lambda schema: cs.sql(schema, LISTED) + cs.marginal(schema, ["region"]),
    "prefixes": lambda schema: cs.prefixes(schema, "age"),
    "functions": lambda schema: cs.mode_shares(schema) + cs.quantile_shares(schema, "age", [0.1, 0.5]),
    "means": lambda schema: cs.means(schema, "age", by=["ill"]),
    "means beside a table": lambda schema: cs.means(schema, "age") + cs.marginal(schema, ["age"]),
}


def streamed(schema, workload, neighbours):
    rng = np.random.Generator(np.random.PCG64(2))
    columns = {
        "region": rng.choice(["north", "west"], ROWS),
        "age": rng.integers(20, 60, ROWS),
        "smoker": rng.random(ROWS) < 0.3,
        "ill": rng.random(ROWS) < 0.3,
    }
    with cs.open_stream(schema, workload, horizon=4, epsilon=2.0, neighbours=neighbours) as stream:
        stream.append(pa.table(columns))
        return stream.release()


def releases(name):
    """One of every kind of question that a mechanism serves, under one relation and the other in turn."""
    for (kind, asked), neighbours in zip(WORKLOADS.items(), itertools.cycle(["replace", "add-remove"])):
        schema, table = people(rows=ROWS, neighbours=neighbours)
        workload = asked(schema)
        settings = needed(name, schema) | ({"count": 2} if name == "top" else {})
        try:
            if name == "stream":
                yield f"{name}, {kind}", streamed(schema, workload, neighbours)
            else:
                made = cs.release(table, workload, epsilon=2.0, delta=1e-6, mechanism=name, **settings)
                yield f"{name}, {kind}", made
        except (NoMechanism, StreamError):
            continue


def without(release):
    """The columns, or tables, of which the report says that they have no interval."""
    text = html.unescape(re.sub(r"<[^>]*>", "\n", good_for(release)))
    found = re.search(r"Without an interval: nothing is promised about these: ([^\n]*)\.", text)
    return [] if found is None else [tuple(name.split(" × ")) for name in found.group(1).split(", ")]


def has_interval(release, place):
    try:
        return release.ask(release.workload[place : place + 1]).low is not None
    except CannotAnswer:
        return False


@pytest.mark.parametrize("name", [*OFFLINE, "stream"])
def test_what_is_said_of_intervals_and_rows_is_so(name):
    """No column without an interval is in a question that has one; there are rows exactly where they can be had."""
    served = 0
    for kind, release in releases(name):
        names, listed, served = release.schema.domain.names, without(release), served + 1
        read = [{names[c] for c in query.columns} for query in release.workload.queries()]
        for columns in listed:
            mine = [place for place, one in enumerate(read) if set(columns) <= one]
            assert not any(has_interval(release, place) for place in mine), (kind, columns)
        try:
            there = desk.rows(release, 3, 1).num_rows == 3
        except Refused:
            there = False
        shelved = Published(name="x", path=Path("x"), release=release, stamp=(0, 0))
        assert in_short(shelved)["has_rows"] == there, kind
    assert served
