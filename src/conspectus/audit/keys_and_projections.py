"""Audits of what sparse questions use: random projections through the door for measurements, and published keys."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import keys_act
from conspectus.curator.curator import Curator
from conspectus.curator.keys import Records
from conspectus.data.domain import Domain
from conspectus.data.records.canonical_form import address, canonical
from conspectus.data.records.field import Elements, P
from conspectus.data.records.fingerprints import KEY
from conspectus.mechanisms.mechanism import root_up
from conspectus.mechanisms.stable_histogram import threshold
from conspectus.privacy.accounting import epsilon_of, price_approximate
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Neighbours
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.queries.workload import Workload

from .doors import DELTA, RHO, Case, HalfTheNoise, Play

COIN = Domain(("c0",), (2,))
CROWD = 60


class ForgottenRow(Curator):
    """Broken on purpose: a threshold that forgets the row which a unit's own key has."""

    def stable_keys(self, scale: float, threshold: int) -> tuple[Elements | Records, NDArray[np.int64]]:
        return super().stable_keys(scale, threshold - self.relation.max_rows)


class HalfTheKeysNoise(Curator):
    """Broken on purpose: half the noise on the counts of published keys."""

    def stable_keys(self, scale: float, threshold: int) -> tuple[Elements | Records, NDArray[np.int64]]:
        return super().stable_keys(scale / 2, threshold)


class OneOfItsFingerprint(Curator):
    """Broken on purpose: records are grouped by fingerprint, and each group is shown as the first of its records."""

    def _keys(self) -> tuple[Elements | Records, NDArray[np.int64]]:
        records, counts = super()._keys()
        groups: dict[int, tuple[bytes, int]] = {}
        for record, rows in zip(cast(Records, records), counts.tolist()):
            first, held = groups.get(address(record), (record, 0))
            groups[address(record)] = (first, held + rows)
        return tuple(record for record, _ in groups.values()), np.array([rows for _, rows in groups.values()])


class NoTail(Curator):
    """Broken on purpose: records are shown from the first count that a unit cannot have alone, whatever the noise."""

    def stable_keys(self, scale: float, threshold: int) -> tuple[Elements | Records, NDArray[np.int64]]:
        return super().stable_keys(scale, self.relation.max_rows + 1)


def cases() -> Iterator[Case]:
    """Both forms of a projection with both kinds of noise, and published keys, under both relations."""
    relations = tuple(Neighbours)
    for neighbours in relations:
        replaced = neighbours is Neighbours.REPLACE
        half = np.repeat([[0], [1]], 8, axis=0)
        other = np.repeat([[0], [1]], [7, 9], axis=0) if replaced else half[:-1]
        far = 2 if replaced else 1
        for form, projection in (("sparse", opposed(4, 1)), ("sparse", opposed(8, 2)), ("dense", opposed(3, 3))):
            s = projection.nonzeros
            yield Case(
                name=f"project-{form}-{s}-laplace",
                neighbours=neighbours,
                tables=(half, other),
                play=_projecting(projection, Noise("laplace", float(far * s))),
                epsilon=1.0,
                delta=0.0,
                twin=HalfTheNoise,
            )
        for form, projection in (("sparse", opposed(8, 2)), ("dense", opposed(3, 3))):
            square = Fraction(far * far * projection.nonzeros)
            yield Case(
                name=f"project-{form}-{projection.nonzeros}-gaussian",
                neighbours=neighbours,
                tables=(half, other),
                play=_projecting(projection, Noise("gaussian", root_up(square / (2 * RHO)))),
                epsilon=epsilon_of(RHO, DELTA),
                delta=DELTA,
                twin=HalfTheNoise,
                effort=2,
            )
        crowd = np.zeros((CROWD, 1), dtype=np.int64)
        alone = np.concatenate([crowd[:-1] if replaced else crowd, np.ones((1, 1), dtype=np.int64)])
        scale, level = far / 2, 3
        yield Case(
            name="stable-keys-own",
            neighbours=neighbours,
            tables=(crowd, alone),
            play=_own_key(scale, level),
            epsilon=2.0,
            # All that the threshold allows, so that a lower one is seen at once.
            delta=float(price_approximate(keys_act(scale, level, max_rows=1), neighbours)[1]),
            twin=ForgottenRow,
        )
        # A record that nobody else has, made to have the fingerprint of a common one, and a plain one.
        alike: tuple[tuple[str, type[Curator], tuple[Any, Any]], ...] = (
            ("collision", OneOfItsFingerprint, collision()),
            ("tail", NoTail, ("common", "rare")),
        )
        for name, twin, (common, rare) in alike:
            many = np.array([common] * CROWD, dtype=object)
            few = np.array([common] * (CROWD - replaced) + [rare], dtype=object)
            yield Case(
                name=f"stable-records-{name}",
                neighbours=neighbours,
                tables=(few, many),
                play=_own_record(scale, threshold(scale, 1, DELTA), canonical(rare)),
                epsilon=2.0,
                delta=DELTA,
                twin=twin,
            )
        two = np.repeat([[0], [1]], CROWD, axis=0)
        fewer = np.repeat([[0], [1]], [CROWD - 1, CROWD + 1], axis=0) if replaced else two[:-1]
        yield Case(
            name="stable-keys-counts",
            neighbours=neighbours,
            tables=(two, fewer),
            play=_key_counts(float(far)),
            epsilon=1.0,
            delta=DELTA,
            twin=HalfTheKeysNoise,
            effort=2,
        )


def opposed(size: int, nonzeros: int) -> SparseProjection:
    """A projection in which the two records of a coin meet everywhere, with opposite signs: the worst there is."""
    for public_seed in count():
        found = SparseProjection(COIN, size, nonzeros, 2, public_seed)
        first, second = column(found, 0), column(found, 1)
        if np.array_equal(first, -second):
            return found
    raise AssertionError("seeds do not end")


def column(projection: SparseProjection, address: int) -> NDArray[np.int64]:
    """The column of one record."""
    sums = np.zeros(projection.size, dtype=np.int64)
    projection.add(np.array([address], dtype=np.uint64), np.ones(1, dtype=np.int64), sums)
    return sums


def _projecting(projection: SparseProjection, law: Noise) -> Play:
    question = Workload(COIN, (projection,))
    signs = column(projection, 1)
    places = np.flatnonzero(signs)

    def play(curator: Curator) -> float:
        shown = (curator.measure(question, law) * signs)[places]
        # Laplace noise tells the most where every coordinate is on one side, Gaussian noise in the sum.
        return float(shown.min() if law.kind == "laplace" else shown.sum())

    return play


def collision() -> tuple[bytes, bytes]:
    """Two records of one fingerprint, the second of which comes first when they are sorted.

    Two words u, v of 7 bytes weigh u·a² + v·a: moving them by x and −y keeps that where x·a ≡ y modulo p, and Euclid's
    algorithm on p and a passes by such x and y of about half as many digits.
    """
    (before, x), (rest, y) = (P, 0), (KEY, 1)
    while rest >= 1 << 31:
        quotient = before // rest
        (before, x), (rest, y) = (rest, y), (before - quotient * rest, x - quotient * y)
    middle = 1 << 55
    words = ((middle, middle), (middle + y, middle - rest))
    first, second = (b"".join(word.to_bytes(7, "little") for word in pair) for pair in words)
    return max(first, second), min(first, second)


def _own_record(scale: float, level: int, record: bytes) -> Play:
    def play(curator: Curator) -> float:
        keys, _ = curator.stable_keys(scale, level)
        return float(record in keys)

    return play


def _own_key(scale: float, level: int) -> Play:
    def play(curator: Curator) -> float:
        keys, _ = curator.stable_keys(scale, level)
        return float(1 in keys)

    return play


def _key_counts(scale: float) -> Play:
    level = threshold(scale, 1, DELTA)

    def play(curator: Curator) -> float:
        keys, counts = curator.stable_keys(scale, level)
        shown = dict(zip(cast(Elements, keys).tolist(), counts.tolist()))
        zeros, ones = shown.get(0, 0), shown.get(1, 0)
        return float(ones - zeros) if curator.relation.neighbours is Neighbours.REPLACE else float(ones)

    return play
