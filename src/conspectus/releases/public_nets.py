"""Public nets: tables and distributions that their owner made without looking at the private rows.

They are read through the same door as private tables, and nothing of theirs is protected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.fold import CodesInMemory
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import Table, open_table
from conspectus.mechanisms.small_db.net_draws import NetError, PublicNet
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import BadSynopsis, Total

from .release import Release

_KINDS = "a table of the schema's values, a matrix of codes, a histogram, or a release that holds rows or a histogram"


def net(schema: Schema, members: Iterable[Any]) -> PublicNet:
    """A net for `mechanism="net"`: one member for each guess at what the table may look like.

    Members must be fixed without looking at the private rows: a net made from them voids the guarantee. What was
    released under a budget of its own may be a member, since it was paid for.

    Args:
        schema: the declaration of the table.
        members: the guesses. A member is a table in the schema's own values (Arrow, pandas, polars, the path of a CSV
            or Parquet file), a matrix of integer codes (rows × columns), an array of non-negative floats over all cells
            (in the shape of the domain, or flat in row-major order), or an earlier release or synopsis. A member that
            is listed twice counts twice.

    Returns:
        The net, for `cs.release(…, mechanism="net", net=…)`.

    Raises:
        NetError: what was given is no list of guesses, or a member cannot be read.

    Example:
        >>> import numpy as np
        >>> even, first = np.full(60, 1 / 60), np.eye(1, 60)[0]
        >>> len(cs.net(schema, [even, first]))
        2
    """
    if not isinstance(schema, Schema):
        raise NetError("a net needs the schema as its first argument: cs.net(schema, [table, …])")
    if isinstance(members, str | bytes | dict) or not isinstance(members, Iterable) or hasattr(members, "columns"):
        raise NetError(f"a net is a list of guesses: write cs.net(schema, [first, …]), each {_KINDS}")
    if isinstance(members, np.ndarray) and members.ndim < 2:
        raise NetError("a net is a list of guesses: write cs.net(schema, [histogram]) for a single histogram")
    return PublicNet(schema.domain, tuple(_member(schema, number, each) for number, each in enumerate(members, 1)))


def _member(schema: Schema, number: int, given: Any) -> Rows | Histogram:
    try:
        return _read(schema, given)
    except BadSynopsis as problem:
        raise NetError(f"member {number} of the net: {problem}") from None


def _read(schema: Schema, given: Any) -> Rows | Histogram:
    if isinstance(given, Release):
        if not given.guarantee.private:
            raise BadSynopsis("it was released with coins that can be known, for a test, and protects nobody")
        given = given.synopsis
    if isinstance(given, Rows | Histogram):
        if given.domain != schema.domain:
            raise BadSynopsis("it is of another schema: make it from the schema of the table")
        return given
    if isinstance(given, Table):
        raise BadSynopsis("a table that was opened is what is protected: give public frames or files")
    if isinstance(given, np.ndarray):
        return _array(schema, given)
    if hasattr(given, "answer"):
        raise BadSynopsis("only rows and histograms can be members: make rows of it with synthetic, and list those")
    if given is None or isinstance(given, bool | int | float | list | tuple | dict | set):
        raise BadSynopsis(f"a member is {_KINDS}, not a {type(given).__name__}")
    # The rows of a public table are nobody's: no id bounds them.
    with open_table(given, dataclasses.replace(schema, unit=Unit())) as table:
        codes = table.fold(CodesInMemory(schema.domain, range(len(schema.domain))))
    return Rows(schema.domain, codes, _rows(len(codes[0])))


def _array(schema: Schema, given: NDArray[Any]) -> Rows | Histogram:
    """Integers are codes, floats are weights."""
    domain = schema.domain
    if given.dtype.kind in "iu":
        if given.ndim != 2 or given.shape[1] != len(domain):
            raise BadSynopsis(f"a matrix of codes has {len(domain)} columns, one for each of the schema")
        if given.size and ((given < 0).any() or (given.max(axis=0) >= np.array(domain.sizes)).any()):
            raise BadSynopsis("a row has a code that its column does not have")
        return Rows(domain, tuple(given.T), _rows(len(given)))
    if given.dtype.kind != "f" or given.shape not in ((domain.cells,), domain.sizes):
        raise BadSynopsis("a histogram has one weight of type float for each cell of the schema")
    return Histogram(domain, given, _rows(0))


def _rows(value: int) -> Total:
    return Total(value=float(value), exact=True)
