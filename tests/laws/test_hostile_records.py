"""No record stops a release, fails it, or changes how another one is read, whatever it is made of."""

from __future__ import annotations

import numpy as np
import pytest

import conspectus as cs
from conspectus.data.canonical import CANONICAL, canonical
from conspectus.data.fingerprints import fingerprint, fingerprints
from conspectus.data.forms import MISSING, MOST_PARTS, form_of

MISSED = canonical(None)


def shared(depth):
    """A list of a few objects that holds 2**depth parts."""
    held = [1]
    for _ in range(depth):
        held = [held, held]
    return held


@pytest.mark.parametrize(
    "record",
    [
        shared(40),
        [["x" * 2**20] * 1000],
        np.broadcast_to(np.int8(1), (10**12,)),
        [0] * (MOST_PARTS + 1),
        {n: shared(12) for n in range(9)},
    ],
    ids=["shared", "bytes", "strides", "long", "mapping"],
)
def test_a_record_of_endless_parts_is_missing_by_itself(record):
    assert form_of(record) == MISSING
    rows = ["a", record, ("b", 1)]
    assert CANONICAL.of(rows).tolist() == [canonical("a"), MISSED, canonical(("b", 1))]
    table = cs.open_records(rows * 2)
    assert [form for part in table.records() for form in part] == CANONICAL.of(rows).tolist() * 2
    assert fingerprints(rows).tolist() == [fingerprint("a"), fingerprint(None), fingerprint(("b", 1))]


def test_a_record_of_as_many_parts_as_are_read_is_itself():
    most = list(range(MOST_PARTS))
    assert form_of(most) != MISSING
    assert form_of(most) != form_of(most[:-1])
    assert form_of(shared(14)) not in (MISSING, form_of(shared(13)))
