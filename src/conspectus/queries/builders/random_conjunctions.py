"""Random conjunctions from a public seed, as the experiments of the literature draw them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from conspectus.data.code_sets import all_but
from conspectus.data.schema import Schema
from conspectus.queries.block import check_length
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.ordering import first_of_each, row_keys
from conspectus.queries.query import Literal
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.whole_numbers import MOST_SEED, SEED

from .arguments import check_listable, check_schema, told


def random_conjunctions(schema: Schema, k: int, count: int, public_seed: int, negations: bool = False) -> Workload:
    """`count` distinct conjunctions of k literals, drawn uniformly over all literals, no column twice.

    A literal is `column = value` for any code of any column with at least two of them, other and missing included. The
    same public seed gives the same workload.

    Args:
        schema: the declaration of the table.
        k: how many literals a conjunction has.
        count: how many conjunctions to draw.
        public_seed: where the draws come from. It is public, and has nothing to do with the noise of a release.
        negations: whether each literal is `=` or `<>` with equal probability, where `<>` holds on every other code.

    Returns:
        A workload of `count` queries.

    Raises:
        WorkloadError: there are not so many different conjunctions, or a number is out of range.

    Example:
        >>> len(cs.random_conjunctions(schema, 2, 10, public_seed=1))
        10
    """
    check_schema(schema)
    domain = schema.domain
    usable = [c for c, size in enumerate(domain.sizes) if size > 1]
    for name, given, least in (("k", k, 1), ("count", count, 0), ("public_seed", public_seed, 0)):
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
            raise WorkloadError(f"{name} must be an integer of at least {least}, not {told(given)}")
    if public_seed > MOST_SEED:
        raise WorkloadError(SEED)
    check_listable(schema, usable)
    if k > len(usable):
        raise WorkloadError(
            f"k literals need k columns with several values: there are {len(usable)}, and k is {told(k)}"
        )
    check_length(int(count), "this set of random conjunctions")
    possible = _possible([domain.sizes[c] for c in usable], k, negations=negations)
    if count > possible:
        raise WorkloadError(f"there are only {possible:,} different conjunctions of {k} literals, fewer than {count:,}")
    signs = 2 if negations else 1
    sizes = np.array([domain.sizes[c] for c in usable], dtype=np.int64)
    column = np.repeat(np.arange(len(usable)), signs * sizes)
    first = np.cumsum(sizes) - sizes
    rng = np.random.Generator(np.random.PCG64(int(public_seed)))
    rows = np.zeros((0, k), dtype=np.int64)
    while len(rows) < count:
        batch = rng.integers(0, len(column), size=(max(1024, 2 * (int(count) - len(rows))), k))
        where = column[batch]
        value, sign = batch // signs, batch % signs
        # `<>` one of two values is `=` the other one.
        swap = (sign == 1) & (sizes[where] == 2)
        value = np.where(swap, 2 * first[where] + 1 - value, value)
        drawn = 2 * value + np.where(swap, 0, sign)
        order = np.sort(where, axis=1)
        fits = (order[:, 1:] != order[:, :-1]).all(axis=1)
        rows = np.concatenate([rows, np.sort(drawn[fits], axis=1)])
        rows = rows[first_of_each(row_keys(rows, 2 * int(sizes.sum())))[0]]
    used, terms = np.unique(rows[: int(count)], return_inverse=True)
    of_value = np.repeat(np.arange(len(usable)), sizes)
    literals = [
        Literal(usable[at], all_but(code, domain.sizes[usable[at]]) if sign else (code,))
        for code, sign, at in zip((used // 2 - first[of_value[used // 2]]).tolist(), used % 2, of_value[used // 2])
    ]
    return Workload(domain, (Conjunctions.build(domain, literals, terms.reshape(-1, k)),))


def _possible(sizes: Sequence[int], k: int, *, negations: bool) -> int:
    """The number of different conjunctions of k literals."""
    # The coefficient of x^k in the product of (1 + literals·x) over all columns; columns of one size at once.
    sums = [1, *[0] * k]
    for size, times in Counter(sizes).items():
        literals = 2 * size if negations and size > 2 else size
        here = [math.comb(times, degree) * literals**degree for degree in range(k + 1)]
        sums = [sum(sums[i] * here[degree - i] for i in range(degree + 1)) for degree in range(k + 1)]
    return sums[k]
