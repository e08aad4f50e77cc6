"""Blocks are values: nobody who holds one can change what it counts."""

from __future__ import annotations

import pytest
from tests.made import people

import conspectus as cs


def test_what_sensitivities_were_computed_of_cannot_be_written_to():
    """A caller or a generator of their own could else make what is published move farther than what was charged."""
    schema, _ = people(30)
    blocks = [
        cs.ranges(schema, "age").blocks[0].bounds[0],
        cs.prefixes(schema, "age").blocks[0].bounds[1],
        cs.parities(schema, 2).blocks[0].matrix,
        cs.parities(schema, 2)[:2].blocks[0].matrix,
        cs.conjunctions(schema, [{"smoker": True}]).blocks[0].box_columns,
    ]
    for array in blocks:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
