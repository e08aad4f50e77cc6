"""The kinds of blocks whose sensitivity is proved: a closed list, on which everything that is measured has to be.

Noise is as large as a workload says that it has to be. A class of somebody else, even one that only changes a method of
ours, could say less, and be believed. So the doors of the curator ask for the exact types, of a workload, of its blocks
and of their parts; whoever has questions of another kind declares their sensitivity with `cs.unsafe_functions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conspectus.data.domain import Domain

from .blocks.conjunction_list import Conjunctions
from .blocks.dyadic_tree import DyadicTree
from .blocks.grouped_marginal import GroupedMarginal
from .blocks.interval_list import Intervals
from .blocks.linear_queries import LinearQueries
from .blocks.marginal import Marginal
from .blocks.moments import Moment, Moments, Numbers
from .blocks.parity_list import Parities, ParityList
from .blocks.sparse_projection import SparseProjection
from .blocks.sparse_queries import SparseQueries
from .blocks.statistic import Statistic, Statistics
from .blocks.subsample_results import Listed, SubsampleSums, SubsampleVotes, Subsampling
from .blocks.subsample_results import Numbers as Ranges
from .blocks.unsafe_functions import DeclaredFunction, UnsafeFunctions
from .query import Literal, Predicate, Weighting
from .sensitivity import WorkloadError
from .workload import Workload

Parts = dict[str, type | tuple[type, ...]]

BLOCKS: dict[type, Parts] = {
    Marginal: {},
    GroupedMarginal: {},
    Intervals: {},
    DyadicTree: {},
    Parities: {},
    ParityList: {},
    SparseQueries: {},
    SparseProjection: {},
    Conjunctions: {"literals": Literal},
    LinearQueries: {"given": Conjunctions, "weightings": Weighting},
    Moments: {"functions": Moment},
    Statistics: {"functions": Statistic},
    UnsafeFunctions: {"functions": DeclaredFunction},
    SubsampleVotes: {"subsampling": Subsampling},
    SubsampleSums: {"subsampling": Subsampling},
}
"""The kinds of blocks, each with the fields that hold parts of it, and the types of these."""

PARTS: dict[type, Parts] = {
    **BLOCKS,
    Moment: {"given": Predicate, "numbers": Numbers},
    Predicate: {"boxes": Literal},
    Statistic: {"given": Literal},
    Subsampling: {"results": (Ranges, Listed)},
}
"""The same for whatever else has parts."""


def proved(workload: Workload) -> Workload:
    """A workload, if it and all of its parts are of kinds whose sensitivity is proved.

    Args:
        workload: What is to be measured.

    Returns:
        The same workload.

    Raises:
        WorkloadError: It, or a part of it, is of another kind: a subclass, or something that looks like one of ours.

    Example:
        >>> from conspectus.queries.proved_kinds import proved
        >>> proved(cs.marginals(schema, 1)) == cs.marginals(schema, 1)
        True
    """
    for strange in _strangers(workload):
        raise WorkloadError(
            f"the sensitivity of a {strange.__name__} is not proved: ask with what cs.marginals, cs.sql and the other "
            "builders make, or declare it with cs.unsafe_functions"
        )
    return workload


def _strangers(workload: Workload) -> Iterator[type]:
    if type(workload) is not Workload:
        yield type(workload)
        return
    if type(workload.domain) is not Domain:
        yield type(workload.domain)
    for block in workload.blocks:
        if type(block) not in BLOCKS:
            yield type(block)
        elif type(block.domain) is not Domain:
            yield type(block.domain)
        else:
            yield from _strange_parts(block)


def _strange_parts(whole: object) -> Iterator[type]:
    """The types of parts that are not what they should be, at any depth."""
    for name, kinds in PARTS.get(type(whole), {}).items():
        held = list(_flat(getattr(whole, name)))
        known = {kinds} if isinstance(kinds, type) else set(kinds)
        yield from sorted({type(part) for part in held} - known, key=lambda each: each.__name__)
        if known & PARTS.keys():
            for part in held:
                yield from _strange_parts(part)


def _flat(held: object) -> Iterable[object]:
    if type(held) is not tuple:
        return (held,)
    return held if not any(type(part) is tuple for part in held) else (leaf for part in held for leaf in _flat(part))
