"""Audits of residuals: the price is that of the projection, so that nothing but the projection may leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import residual_scales
from conspectus.curator.curator import Curator
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.workload import Workload

from .doors import GAUSSIAN, RHO, Play, case, coin_domain, one_moves
from .plays import Experiment

COINS = coin_domain(3)
ALL = Residual(COINS, (0, 1, 2))
SEVERAL = (Residual(COINS, (0,)), Residual(COINS, (1, 2)), ALL)


class TableShown(Curator):
    """Broken on purpose: the noisy table leaves instead of its projection, for the price of the projection."""

    def measure_residuals(self, residuals: Sequence[Residual], scales: Sequence[float]) -> list[NDArray[np.float64]]:
        drawn = self._residual_noise(residuals, scales)
        tables = [self._truth(Workload(residual.domain, (residual.table,))) for residual in residuals]
        return [table + noise / residual.cells for residual, table, noise in zip(residuals, tables, drawn)]


class StepsForCounts(Curator):
    """Broken on purpose: a scale in counts is taken for one in steps, on the smallest of the residuals."""

    def measure_residuals(self, residuals: Sequence[Residual], scales: Sequence[float]) -> list[NDArray[np.float64]]:
        return super().measure_residuals(residuals, [scales[0] / residuals[0].cells, *scales[1:]])


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """One residual of three columns, and several with noise of different scales."""
    shown = _measuring(neighbours, (ALL,), (1.0,))
    yield case("residual", neighbours, one_moves(neighbours), shown, TableShown, GAUSSIAN, effort=2)
    shown = _measuring(neighbours, SEVERAL, (3.0, 1.0, 2.0))
    yield case("residuals-joint", neighbours, one_moves(neighbours), shown, StepsForCounts, GAUSSIAN, effort=6)


def _measuring(neighbours: Neighbours, residuals: Sequence[Residual], precisions: Sequence[float]) -> Play:
    """The log-likelihood ratio of Gaussian noise, but for what does not depend on the draws: what tells most."""
    scales = residual_scales(residuals, precisions, RHO, relation=Relation(neighbours))
    moved = [_moved(residual, neighbours) for residual in residuals]

    def play(curator: Curator) -> float:
        shown = curator.measure_residuals(residuals, scales)
        return float(sum(p * (w @ r) for p, w, r in zip(precisions, moved, shown)))

    return play


def _moved(residual: Residual, neighbours: Neighbours) -> NDArray[np.int64]:
    """What the tables differ by, as counts of the residual's table."""
    table = np.zeros(residual.shape, dtype=np.int64)
    table[(1,) * len(residual.shape)] = 1
    if neighbours is Neighbours.REPLACE:
        table[tuple(int(column > 0) for column in residual.columns)] -= 1
    return table.ravel()
