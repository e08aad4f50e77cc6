"""Which values may be a quantile: not fewer than noise allows, nor more than the rows of a value leave room for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from conspectus.privacy.events import Noise
from conspectus.releases.cells.cell_estimates import CellCounts
from conspectus.releases.cells.ranks import OF_ROWS, SPLITS, RanksTogether, possible_codes, quantile, reach_beside

ALPHA = 1e-6


@pytest.mark.parametrize("failure", [0.2, 0.05, 1e-3])
@pytest.mark.parametrize("law", [norm, None], ids=["normal", "laplace"])
def test_a_value_is_left_out_no_more_often_than_it_may(law, failure: float) -> None:
    """Wherever among its rows the quantile lies, for values of any number of rows: by the tails themselves."""

    def tail(t):
        return norm.sf(t) if law is norm else np.where(t < 0, 1 - np.exp(t) / 2, np.exp(-np.abs(t)) / 2)

    def quantile_of(p: float) -> float:
        return float(norm.isf(p)) if law is norm else float(-np.log(2 * p))

    quantiles = {side: quantile_of(side * failure) for split in SPLITS for side in (split, 1 - split)}
    found = []
    for rows in np.linspace(0.0, 20.0, 101):
        r = reach_beside(quantiles, float(rows))
        below = np.linspace(0.0, rows, 201)
        assert float((tail(r + below) + tail(r + rows - below)).max()) <= failure * (1 + 1e-9)
        found.append(r)
    assert found[0] == quantiles[0.5]  # no rows: half for either side
    assert found[-1] == quantiles[0.95]  # many rows: one side alone can be near
    assert (np.diff(found) <= 1e-12).all()


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("law", [Noise("laplace", 3.0), Noise("gaussian", 5.0)])
def test_medians_hold_wherever_among_the_rows_of_a_value_they_are(law: Noise, place: str) -> None:
    """800 draws from a fixed seed. At either end of its rows a median is missed by one side alone, but for chance as
    often as it may be; in the middle of them far less often."""
    rng = np.random.Generator(np.random.PCG64(3))
    size, each = 120, 60.0
    cells = np.full(size, each)
    cells[:60] += {"first": 1.0, "middle": 0.0, "last": -1.0}[place] * (each / 60 - 0.02)
    cells[60] += {"first": 0.0, "middle": each, "last": 0.0}[place]
    sums = np.cumsum(cells)
    true, runs = int(np.searchsorted(sums, sums[-1] / 2 - 1e-9)), 800
    held, shorter = 0, 0
    for _ in range(runs):
        wide = rng.laplace(0, law.scale, size) if law.kind == "laplace" else rng.normal(0, law.scale, size)
        seen = cells + np.rint(wide)
        ranks = RanksTogether(CellCounts(counts=seen, measured=seen, law=law), np.arange(size), size)
        low, high = ranks.kept(0.5, 0.05)
        held += low <= true <= high
        whole = possible_codes(*ranks.tested(0.5, 0.05 * (1 - OF_ROWS)))
        assert whole[0] <= low <= high <= whole[1]
        shorter += (low, high) != whole
    assert held >= binom.ppf(ALPHA, runs, 0.95)
    assert shorter > runs / 20


def test_values_of_few_rows_keep_half_for_either_side() -> None:
    rng = np.random.Generator(np.random.PCG64(4))
    law = Noise("gaussian", 6.0)
    seen = rng.poisson(2.0, 900) + np.rint(rng.normal(0, 6, 900))
    cells = CellCounts(counts=seen, measured=seen, law=law)
    ranks = RanksTogether(cells, np.arange(900), 900)
    assert ranks.kept(0.5, 0.05) == possible_codes(*ranks.tested(0.5, 0.05 * (1 - OF_ROWS)))
    assert quantile(cells, np.arange(900), 900, 0.5, 0.7) is not None  # and any confidence has an interval
