"""From tables of pairs and triples to one mixture of products that has them all, nearly: post-processing.

First the pairs are made better by one another: a small mixture is fitted to all pairs but a fifth, and what it says of
that fifth is a guess that does not know their own noise (`bridges.through_predictions`). Then a large mixture is fitted
to all pairs, and is stopped once it is as near to them as they are likely to be to the truth; and then to pairs and
triples together, which keeps its tables of three columns near those of most entropy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conspectus.data.domain import Domain
from conspectus.synopses.fitting.mixture_fit import MixtureFit, fit_mixture
from conspectus.synopses.fitting.mixture_targets import Target
from conspectus.synopses.synopsis import public_sampler

from .bridges import through_predictions
from .pair_fits import Model, in_parallel
from .smoothing import Floats
from .triple_fits import Columns

FOLDS = 5
SMALL, SMALL_PER_GROUP, SMALL_CONCENTRATION, SMALL_SINGLE_WEIGHT = 300, 10, 10.0, 3.0
"""Components of the mixtures that predict pairs, at most and for each group; how alike they start; and the weight of
single columns."""

CLOSE_ENOUGH = 0.2
"""The fit to pairs stops at this share of their expected distance to the truth: what is missed acts as shrinkage."""

MOST_STEPS = 300
PATIENT: dict[str, Any] = {"momentum": 0.9, "block_steps": 60}
"""Where tables are precise there is nothing to be gained by stopping early: more momentum comes three times as near to
them in as many steps (columns of Diabetic)."""

TRIPLE_WEIGHT = 2.0


def coded_domain(model: Model) -> Domain:
    """The columns as they are modelled."""
    sizes = tuple(coding.size for coding in model.codings)
    return Domain(tuple(str(place) for place in range(len(sizes))), sizes)


def targets(
    model: Model, single_weight: float = 1.0, without: frozenset[tuple[int, int]] = frozenset()
) -> list[Target]:
    """The columns and the pairs that a mixture is fitted to."""
    single = [Target((place,), coding.law, single_weight) for place, coding in enumerate(model.codings)]
    return single + [Target(r, table) for r, table in model.tables.items() if r not in without]


def cross_fitted(model: Model, steps: int, public_seed: int) -> None:
    """Make every pair better by what all other pairs say of it."""
    pairs = list(model.pairs)
    domain = coded_domain(model)
    order = public_sampler(public_seed).permutation(len(pairs))
    folds = [frozenset(pairs[i] for i in order[fold::FOLDS]) for fold in range(FOLDS)]
    ends = np.cumsum([0, *domain.sizes])

    def predicted(fold: int) -> dict[tuple[int, int], Floats]:
        fit = fit_mixture(
            domain,
            targets(model, SMALL_SINGLE_WEIGHT, folds[fold]),
            components=min(SMALL, SMALL_PER_GROUP * int(ends[-1])),
            iterations=steps,
            first_steps=steps,
            public_seed=public_seed * FOLDS + fold,
            concentration=SMALL_CONCENTRATION,
        )
        sides = [fit.tables[:, ends[c] : ends[c + 1]] for c in range(len(domain))]
        weighted = fit.weights[:, None]
        return {(a, b): ((sides[a] * weighted).T @ sides[b]).astype(np.float64) for a, b in folds[fold]}

    found: dict[tuple[int, int], Floats] = {}
    for part in in_parallel(predicted, [fold for fold in range(FOLDS) if folds[fold]]):
        found |= part
    through_predictions(model, found)


def fit_pairs(
    model: Model, components: int, close: float, public_seed: int, *, most_steps: int, exact: bool
) -> MixtureFit:
    """A mixture with the pair tables of a model, stopped when it is close enough; `exact` where they are precise."""
    return fit_mixture(
        coded_domain(model),
        targets(model),
        components=components,
        iterations=most_steps,
        close_enough=CLOSE_ENOUGH * close,
        public_seed=public_seed,
        **(PATIENT if exact else {}),
    )


def fit_triples(
    model: Model,
    start: MixtureFit,
    triples: Mapping[Columns, tuple[int, Floats]],
    *,
    steps: int,
    each_step: int,
    public_seed: int,
    exact: bool,
) -> MixtureFit:
    """Go on with a fit to pairs and, some in each step, triples: each a level and its table there."""
    return fit_mixture(
        coded_domain(model),
        targets(model) + triple_targets(model, triples),
        components=len(start.weights),
        iterations=steps,
        first_steps=steps,
        start=start,
        tables_per_step=each_step,
        public_seed=public_seed + 1,
        **(PATIENT if exact else {}),
    )


def triple_targets(model: Model, triples: Mapping[Columns, tuple[int, Floats]]) -> list[Target]:
    """Triples as targets of a fit."""
    found = []
    for columns, (level, table) in triples.items():
        maps = tuple(
            None if len(model.codings[c].starts[level]) == model.codings[c].size else model.codings[c].maps[level]
            for c in columns
        )
        found.append(Target(columns, table, TRIPLE_WEIGHT, maps))
    return found
