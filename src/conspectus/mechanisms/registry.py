"""The mechanisms by the names that users type: one line each, from which everything else is taken.

The planner, `--mechanism` and its help, `conspectus audit`, the classes of `cs.mechanisms`, did-you-mean texts and the
law tests read these two tables. A mechanism is its own folder or module, and a line here.

Nothing is imported before it is used: the command line shows these names, and must not wait for compilers.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal

from conspectus.suggestions import suggest_keyword

MEASURE = ("measure-laplace", "measure-gaussian")
NUMBERS = ("linear-sum", "linear-mean", "inside-bins")
PROJECT = (
    *(f"project-{form}-laplace" for form in ("sparse-1", "sparse-2", "dense-3")),
    *(f"project-{form}-gaussian" for form in ("sparse-2", "dense-3")),
)
RESIDUALS = ("residual", "residuals-joint")
KEYS = ("stable-keys-own", "stable-keys-counts", "stable-records-collision", "stable-records-tail")
TOP = ("top-exponential", "top-permute-and-flip", "top-noisy-max", "top-value")
WATCHES = ("above-threshold", "watch-one-threshold", "watch-restarted", "watch-ended", "watch-released")


@dataclass(frozen=True)
class Entry:
    """Where a mechanism lives, and what can be known of it without importing it.

    Args:
        home: Its module: in this folder if it begins with a dot, anywhere else otherwise.
        kind: The name of its class, whose `name` is the key of the entry.
        doors: The cases of the audit that attack what it does. A mechanism composes acts of these doors and touches the
            table in no other way: an audit of it is an audit of them.
        by_itself: Whether its synopsis answers without the questions of the release, which can then be left out.
        whole_rows: Whether it asks about whole rows, whichever columns its workload reads.
        keys: Whether it asks for the keys of rows.
        counts_once: Whether it counts its workload and nothing else, so that rows need not be put aside.
        gives_rows: Whether synthetic rows can be made from what it releases: always, never, or where they can be
            fitted to the marginals that it measures.
        acts: How its acts are allowed: "declared" where it lists all of them before the first draw,
            "declared-with-delta" where it does so unless the budget is pure, "gaussian" where it has the terms of a
            filter for Gaussian noise, and "filtered" elsewhere. Its files are priced so, whatever they say themselves.
    """

    home: str
    kind: str
    doors: tuple[str, ...]
    by_itself: bool = False
    whole_rows: bool = False
    keys: bool = False
    counts_once: bool = False
    gives_rows: Literal["always", "fitted", "never"] = "always"
    acts: Literal["declared", "declared-with-delta", "gaussian", "filtered"] = "filtered"

    def load(self) -> Any:
        """The class, imported now if it was not before. It answers a misspelt setting with the right one."""
        kind = getattr(importlib.import_module(self.home, __package__), self.kind)
        if not hasattr(kind.__init__, "__wrapped__"):
            kind.__init__ = suggest_keyword(kind.__init__)
        return kind


OFFLINE: dict[str, Entry] = {
    "laplace": Entry(
        ".additive", "Laplace", ("measure-laplace", *NUMBERS), counts_once=True, gives_rows="fitted", acts="declared"
    ),
    "gaussian": Entry(
        ".additive", "Gaussian", ("measure-gaussian", *NUMBERS), counts_once=True, gives_rows="fitted", acts="declared"
    ),
    "histogram": Entry(".joint_table", "JointTable", (*MEASURE, *NUMBERS), counts_once=True, acts="declared"),
    "tree": Entry(".tree_of_intervals", "Tree", (*MEASURE, *NUMBERS), counts_once=True, acts="declared"),
    "mwem": Entry(".mwem", "Mwem", ("select", *MEASURE, *NUMBERS)),
    "iterative": Entry(".iterative_construction", "IterativeConstruction", ("select", *MEASURE, *NUMBERS)),
    "adaptive": Entry(
        ".adaptive.mechanism", "Adaptive", ("distances", *RESIDUALS, "measure-gaussian"), acts="gaussian"
    ),
    "projection": Entry(
        ".projection",
        "Projection",
        (*MEASURE, *NUMBERS, *RESIDUALS),
        counts_once=True,
        acts="declared-with-delta",
    ),
    "boosting": Entry(".boosting.mechanism", "Boosting", ("boosting", "functions", *MEASURE, *NUMBERS)),
    "dual-query": Entry(".dual_query.mechanism", "DualQuery", ("dual-query", *MEASURE)),
    "small-db": Entry(".small_db.mechanism", "SmallDb", ("net-listed", "net-enumerated", "net-laminar", *MEASURE)),
    "net": Entry(".small_db.net_mechanism", "NetMechanism", ("net-listed", "net-public", *MEASURE)),
    "sparse-project": Entry(
        ".sparse_project.mechanism",
        "SparseProject",
        (*PROJECT, *MEASURE),
        by_itself=True,
        whole_rows=True,
        gives_rows="never",
        acts="declared",
    ),
    "top": Entry(".top", "Top", (*TOP, *MEASURE), gives_rows="never"),
    "stable-histogram": Entry(
        ".stable_histogram",
        "StableHistogram",
        (*KEYS, *MEASURE),
        by_itself=True,
        whole_rows=True,
        keys=True,
        acts="declared",
    ),
}
"""Mechanisms that release a whole workload, in the order in which they are listed and planned."""

ONLINE: dict[str, Entry] = {
    "pmw": Entry(".online.multiplicative_weights", "Pmw", (*WATCHES, *MEASURE)),
    "live-mixture": Entry(
        ".live_mixture.mechanism", "LiveMixture", (*WATCHES, "distances", *RESIDUALS, "measure-gaussian")
    ),
    "sparse-mw": Entry(".online.sparse_weights", "SparseMw", (*WATCHES, *MEASURE)),
    "median": Entry(".online.median", "Median", (*WATCHES, *MEASURE)),
    "perceptron": Entry(".online.perceptron", "Perceptron", (*WATCHES, *MEASURE)),
    "gaussian": Entry(".online.fresh_noise", "OnlineGaussian", ("measure-gaussian", *NUMBERS)),
    "laplace": Entry(".online.fresh_noise", "OnlineLaplace", ("measure-laplace", *NUMBERS)),
}
"""Mechanisms that answer sessions, one question at a time, in the order in which they are listed and planned."""
