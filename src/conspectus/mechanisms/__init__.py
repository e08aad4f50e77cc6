"""The theorems. `cs.mechanisms` has a class for each mechanism: its fields are the settings, its docstring says which.

An object is accepted wherever a name is: `cs.release(…, mechanism=cs.mechanisms.Boosting(rounds=5))` is the same as
`cs.release(…, mechanism="boosting", rounds=5)`.

Example:
    >>> import conspectus as cs
    >>> cs.mechanisms.Pmw(priming=0.25, order=2).name
    'pmw'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import OFFLINE, ONLINE

if TYPE_CHECKING:  # what editors and type checkers know; the classes themselves come from the registry
    from .adaptive.mechanism import Adaptive as Adaptive
    from .additive import Gaussian as Gaussian
    from .additive import Laplace as Laplace
    from .boosting.mechanism import Boosting as Boosting
    from .dual_query.mechanism import DualQuery as DualQuery
    from .iterative_construction import IterativeConstruction as IterativeConstruction
    from .joint_table import JointTable as JointTable
    from .live_mixture.mechanism import LiveMixture as LiveMixture
    from .mwem import Mwem as Mwem
    from .online.fresh_noise import OnlineGaussian as OnlineGaussian
    from .online.fresh_noise import OnlineLaplace as OnlineLaplace
    from .online.median import Median as Median
    from .online.multiplicative_weights import Pmw as Pmw
    from .online.perceptron import Perceptron as Perceptron
    from .online.sparse_weights import SparseMw as SparseMw
    from .projection import Projection as Projection
    from .small_db.mechanism import SmallDb as SmallDb
    from .small_db.net_mechanism import NetMechanism as NetMechanism
    from .sparse_project.mechanism import SparseProject as SparseProject
    from .stable_histogram import StableHistogram as StableHistogram
    from .top import Top as Top
    from .tree_of_intervals import Tree as Tree


def __getattr__(name: str) -> Any:
    kinds = {entry.kind: entry for entry in (*OFFLINE.values(), *ONLINE.values())}
    if name == "__all__":
        return list(kinds)
    if name not in kinds:
        raise AttributeError(f"module 'conspectus.mechanisms' has no attribute {name!r}")
    return kinds[name].load()


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
