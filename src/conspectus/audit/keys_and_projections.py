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
from conspectus.data.records.canonical_form import address, canonical
from conspectus.data.records.field import Elements, P
from conspectus.data.records.fingerprints import KEY
from conspectus.mechanisms.mechanism import root_up
from conspectus.mechanisms.stable_histogram import threshold
from conspectus.privacy.accounting import price_approximate
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Neighbours
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.queries.workload import Workload

from .doors import DELTA, GAUSSIAN, RHO, HalfTheNoise, Play, case, coin_domain, coins, told
from .plays import Experiment

COIN = coin_domain(1)
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


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """Both forms of a projection with both kinds of noise, and published keys."""
    replaced = neighbours is Neighbours.REPLACE
    half, far = coins(neighbours, 8), 2 if replaced else 1
    for form, projection in (("sparse", opposed(4, 1)), ("sparse", opposed(8, 2)), ("dense", opposed(3, 3))):
        s = projection.nonzeros
        play = _projecting(projection, Noise("laplace", float(far * s)))
        yield case(f"project-{form}-{s}-laplace", neighbours, half, play, HalfTheNoise)
        if s > 1:
            play = _projecting(projection, Noise("gaussian", root_up(Fraction(far * far * s) / (2 * RHO))))
            yield case(f"project-{form}-{s}-gaussian", neighbours, half, play, HalfTheNoise, GAUSSIAN, effort=2)
    crowd = np.zeros((CROWD, 1), dtype=np.int64)
    alone = np.concatenate([crowd[:-1] if replaced else crowd, np.ones((1, 1), dtype=np.int64)])
    scale, level = far / 2, 3
    # All that the threshold allows, so that a lower one is seen at once.
    delta = float(price_approximate(keys_act(scale, level, max_rows=1), neighbours)[1])
    play = _showing(scale, level, 1)
    yield case("stable-keys-own", neighbours, (crowd, alone), play, ForgottenRow, (2.0, delta))
    # A record that nobody else has, made to have the fingerprint of a common one, and a plain one.
    alike: tuple[tuple[str, type[Curator], tuple[Any, Any]], ...] = (
        ("collision", OneOfItsFingerprint, collision()),
        ("tail", NoTail, ("common", "rare")),
    )
    for name, twin, (common, rare) in alike:
        many = np.array([common] * CROWD, dtype=object)
        few = np.array([common] * (CROWD - replaced) + [rare], dtype=object)
        play = _showing(scale, threshold(scale, 1, DELTA), canonical(rare))
        yield case(f"stable-records-{name}", neighbours, (few, many), play, twin, (2.0, DELTA))
    play = _key_counts(float(far))
    tables = coins(neighbours, CROWD)
    yield case("stable-keys-counts", neighbours, tables, play, HalfTheKeysNoise, (1.0, DELTA), effort=2)


def opposed(size: int, nonzeros: int) -> SparseProjection:
    """A projection in which the two records of a coin meet everywhere, with opposite signs: the worst there is."""
    for public_seed in count():
        found = SparseProjection(COIN, size, nonzeros, 2, public_seed)
        if np.array_equal(column(found, 0), -column(found, 1)):
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

    def play(curator: Curator) -> float:
        shown = (curator.measure(question, law) * signs)[signs != 0]
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


def _showing(scale: float, level: int, key: object) -> Play:
    """Whether a key is among those that are published."""
    return lambda curator: float(key in curator.stable_keys(scale, level)[0])


def _key_counts(scale: float) -> Play:
    level = threshold(scale, 1, DELTA)

    def play(curator: Curator) -> float:
        keys, counts = curator.stable_keys(scale, level)
        shown = dict(zip(cast(Elements, keys).tolist(), counts.tolist()))
        return told(curator, shown.get(0, 0), shown.get(1, 0))

    return play
