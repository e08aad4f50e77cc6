"""A mixture of products as the guess of a session: it answers any predicate, and learns from measured ones.

To learn is to go on with the fit for a few steps: towards all that was measured in the session, and towards the pair
tables that the mixture had before the first question, so that one answer does not cost all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.mechanisms.online_mechanism import BadState, State
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import variance_of
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import Literal, Parity, Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.mixture_fit import MixtureFit, fit_mixture
from conspectus.synopses.fitting.mixture_questions import BoxUnion, EvenCount, QuestionTarget
from conspectus.synopses.fitting.mixture_targets import Target
from conspectus.synopses.product_mixture import ProductMixture
from conspectus.synopses.synopsis import BadSynopsis, Total

STEPS = 40
"""Of the fit, for each measured answer."""

MOST_LEARNED = 200
"""The latest measured answers that the fit is held to."""

WEIGHT = 5.0
"""How much a measured answer counts, beside all tables of one and two columns that one of its columns is in."""

_SEED = 1
_HEAD = "guess-"


class MixtureGuess:
    """A mixture that has learned from some measured questions."""

    def __init__(self, mixture: ProductMixture, total: Total) -> None:
        self.first = mixture
        self._total = total
        self._now = mixture
        self._learned: list[QuestionTarget] = []
        self._tables: list[Target] | None = None

    def of(self, query: Workload) -> float:
        """The share of the rows that it expects; `WorkloadError` for a question that it could not learn from."""
        self._asked(query)
        return float(self._now.answer(query)[0])

    def _asked(self, query: Workload) -> Predicate | Parity:
        asked = canonical_query(query.domain, query.query(0))
        if not isinstance(asked, Predicate | Parity):
            raise WorkloadError(
                "this mechanism learns from predicates: ask one, or ask about weighted records with sparse-mw"
            )
        return asked

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        """Take in a measured count: go on with the fit, towards it and all that was known before."""
        rows = self._total.divisor
        expected = self.of(query)
        apart = noisy / rows - expected
        # What noise alone would explain is no reason to move: the estimate of James and Stein, of one number.
        kept = max(0.0, 1 - variance_of(law) / max((apart * rows) ** 2, 1e-12))
        least = 0.5 / max(rows, 2.0)
        share = min(max(expected + kept * apart, least), 1 - least)
        question = self._question(self._asked(query))
        if not question.columns:
            return
        weight = WEIGHT * len(self.first.known_columns)
        self._learned = [*self._learned, QuestionTarget(question, share, weight)][-MOST_LEARNED:]
        fit = MixtureFit(self._now.weights.astype(np.float32), np.asarray(self._now.tables), 0, np.nan)
        fit = fit_mixture(
            self._held,
            self._known,
            components=len(fit.weights),
            iterations=STEPS,
            public_seed=_SEED,
            start=fit,
            questions=self._learned,
        )
        self._now = ProductMixture.of_fit(
            self.first.domain, fit, self.first.total, columns=self.first.columns, coarse=self.first.coarse
        )

    def synopsis(self) -> ProductMixture:
        """The mixture as it is now."""
        return self._now

    @property
    def _held(self) -> Domain:
        """The columns as the mixture holds them."""
        assert self.first.coarse is not None
        names = tuple(self.first.domain.names[c] for c in self.first.known_columns)
        sizes = self.first.domain.shape(self.first.known_columns)
        return Domain(names, tuple(n if how is None else how.size for n, how in zip(sizes, self.first.coarse)))

    @property
    def _known(self) -> list[Target]:
        """The tables of one and two columns that the mixture had before the first question."""
        if self._tables is None:
            held = self._held
            whole = ProductMixture(held, self.first.weights, self.first.tables, self.first.total)
            sets = [s for k in (1, 2) for s in combinations(range(len(held)), k)]
            self._tables = [Target(columns, whole.marginal(columns)) for columns in sets]
        return self._tables

    def _question(self, asked: Predicate | Parity) -> BoxUnion | EvenCount:
        """The same over the columns as the mixture holds them."""
        place = {column: at for at, column in enumerate(self.first.known_columns)}
        if isinstance(asked, Parity):
            return EvenCount({place[c]: self._inside(place[c], np.array([1])) for c in asked.columns})
        return BoxUnion(tuple(dict(self._literal(place, literal) for literal in box) for box in asked.boxes))

    def _literal(self, place: Mapping[int, int], literal: Literal) -> tuple[int, NDArray[np.float32]]:
        at = place[literal.column]
        return at, self._inside(at, np.asarray(literal.codes, dtype=np.int64))

    def _inside(self, place: int, codes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Which part of each group of a column some codes are."""
        assert self.first.coarse is not None
        how = self.first.coarse[place]
        found = np.zeros(self._held.sizes[place], dtype=np.float64)
        if how is None:
            found[codes] = 1
        else:
            np.add.at(found, how.groups[codes], how.within[codes])
        return found.astype(np.float32)


def with_mixture(state: State, mixture: ProductMixture) -> State:
    """A state that holds a mixture, too."""
    meta, tables = state
    own, parts = mixture.parts()
    return {**meta, "guess": own}, {**tables, **{_HEAD + name: table for name, table in parts.items()}}


def stored_mixture(state: State, domain: Domain) -> ProductMixture:
    """The mixture of a stored state; `BadState` if it has none of this table."""
    meta, tables = state
    own: Any = meta.get("guess")
    parts: dict[str, pa.Table] = {
        name.removeprefix(_HEAD): table for name, table in tables.items() if name.startswith(_HEAD)
    }
    try:
        if not isinstance(own, Mapping):
            raise BadSynopsis("there is none")
        return ProductMixture.from_parts(domain, own, parts)
    except (BadSynopsis, ValueError) as unreadable:
        raise BadState(f"the guess of the session's state is not readable: {unreadable}") from unreadable
