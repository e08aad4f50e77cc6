"""Numbers from what a stream counted: whatever follows from its cells is answered, with an interval that holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import conspectus as cs
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import noise_margin, variance_of
from conspectus.releases.cells.known_cells import AddingUp
from conspectus.releases.cells.stream_cells import stream_cells
from conspectus.releases.release import load
from conspectus.synopses.stream_answers import StreamAnswers
from conspectus.synopses.synopsis import CannotAnswer, Total

ALPHA = 1e-6
AGE = {"type": "integer", "min": 0, "max": 5}
SCHEMA = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}, "age": AGE}})
STREAMS = [("replace", 4, 1e-6), ("replace", None, 0.0), ("add-remove", 4, 0.0), ("add-remove", None, 1e-6)]
NUMBERS = {
    "count": "COUNT(*)",
    "older": "COUNT(*) FILTER (WHERE age >= 2)",
    "rate": "COUNT(*) FILTER (WHERE age = 1) / COUNT(*)",
    "total": "SUM(age)",
    "mean": "AVG(age)",
    "spread": "VARIANCE(age)",
    "middle": "MEDIAN(age)",
}
SELECT = f"SELECT {', '.join(f'{number} AS {name}' for name, number in NUMBERS.items())} FROM visits"


def events():
    rng = np.random.Generator(np.random.PCG64(7))
    sizes = (90, 60, 110)
    return [pa.table({"ill": rng.random(n) < 0.3, "age": rng.binomial(5, 0.4, n)}) for n in sizes]


def truth():
    age = np.concatenate([rows["age"].to_numpy() for rows in events()])
    return {
        "count": len(age),
        "older": np.sum(age >= 2),
        "rate": np.mean(age == 1),
        "total": age.sum(),
        "mean": age.mean(),
        "spread": age.var(ddof=1),
        "middle": np.median(age),
    }


def streamed(asked, neighbours, horizon, delta, epsilon):
    with cs.open_stream(SCHEMA, asked, horizon=horizon, epsilon=epsilon, delta=delta, neighbours=neighbours) as stream:
        for table in TABLES:
            stream.append(table)
        return stream.release()


TABLES = [cs.open_table(rows, SCHEMA) for rows in events()]


@pytest.mark.parametrize("columns", [["age"], ["ill", "age"]])
@pytest.mark.parametrize(("neighbours", "horizon", "delta"), STREAMS)
def test_whatever_follows_from_counted_cells_has_an_interval(columns, neighbours, horizon, delta, tmp_path):
    """At a budget of a million the numbers are those of the rows; at any other they have intervals, in a file too."""
    asked = cs.marginal(SCHEMA, columns)
    sharp = streamed(asked, neighbours, horizon, delta, 1e6).query(SELECT).to_dict()
    for name, true in truth().items():
        assert sharp[name][0] == pytest.approx(true, rel=0.03)
        assert sharp[f"{name}_low"][0] <= true + 1e-9
        assert true - 1e-9 <= sharp[f"{name}_high"][0]
    release = streamed(asked, neighbours, horizon, delta, 2.0)
    release.save(tmp_path / "x.conspectus")
    for held in (release, load(tmp_path / "x.conspectus")):
        found = held.query(SELECT)
        said = found.to_dict()
        assert all(said[f"{name}_low"][0] is not None for name in NUMBERS)
        assert not any("no noise" in note for note in found.notes)
        shares = held.query("SELECT age, COUNT(*), SHARE(*) FROM visits GROUP BY age").to_dict()
        assert None not in shares["share_low"] + shares["share_high"]
        median = held.quantile("age", 0.5)
        assert (median.value, median.low, median.high) == tuple(
            said[f"middle{end}"][0] for end in ("", "_low", "_high")
        )
        assert held.ask(cs.means(SCHEMA, "age")).low is not None
        assert held.ask("age >= 2").count + held.ask("age < 2").count == pytest.approx(held.ask("TRUE").count)
        low, high = held.synopsis.intervals(cs.marginal(SCHEMA, ["age"]), 0.95, held.evidence)
        assert (high > low).all()


@pytest.mark.parametrize(
    ("neighbours", "horizon", "delta"),
    [*STREAMS[:2], *(pytest.param(*each, marks=pytest.mark.audit) for each in STREAMS[2:])],
)
def test_numbers_from_streams_hold_as_often_as_they_say(neighbours, horizon, delta):
    """20 streams each, 70 % intervals: ALPHA is the chance that any number of any kind of stream misses more often."""
    asked, true, runs = cs.marginal(SCHEMA, ["age"]), truth(), 20
    missed = dict.fromkeys(true, 0)
    for _ in range(runs):
        found = streamed(asked, neighbours, horizon, delta, 1.5).query(SELECT, confidence=0.7).to_dict()
        for name, number in true.items():
            missed[name] += not found[f"{name}_low"][0] - 1e-9 <= number <= found[f"{name}_high"][0] + 1e-9
    assert max(missed.values()) <= binom.ppf(1 - ALPHA / len(STREAMS) / len(true), runs, 0.3)


def held(counts, total, **more):
    asked = cs.marginal(SCHEMA, ["age"]) + cs.sql(SCHEMA, ["ill"])
    return StreamAnswers(SCHEMA.domain, asked, counts, Noise("laplace", 4.0), 3, total, **more)


def test_the_noise_of_a_sum_is_that_of_its_cells():
    """By fixed counts: of the fewer cells where the number of events is public, and of both sides where they are even;
    the variance of a weighted sum by the definition, with draws that are narrower at half of the failure."""
    counts = np.array([10.0, 21.0, 32.0, 43.0, 54.0, 65.0, 30.0])
    public, paid = Total(value=200.0, exact=True), Total(value=225.0, exact=False, kind="laplace", scale=4.0, terms=18)

    def asked(stream, text):
        return stream.estimate(cs.sql(SCHEMA, [text]), 0.95)

    def margin(draws):
        return noise_margin("laplace", 4.0, draws, 0.95)

    for total in (public, paid):
        few = asked(held(counts, total), "age < 2")
        assert (few.count, few.high - few.count) == pytest.approx((31.0, margin(6)))
    many = asked(held(counts, paid), "age >= 2")
    assert (many.count, many.high - many.count) == pytest.approx((194.0, margin(12)))
    many = asked(held(counts, public), "age >= 2")
    assert (many.count, many.high - many.count) == pytest.approx((169.0, margin(6)))
    even = asked(held(counts, public), "age < 3")
    assert (even.count, even.high - even.count) == pytest.approx(((63 + 200 - 162) / 2, margin(18) / 2))
    every = asked(held(counts, paid), "ill OR NOT ill")
    assert (every.count, every.high - every.count) == pytest.approx((225.0, margin(18)))
    weights = np.arange(6.0)
    plain, moved = (stream_cells(held(counts, total, alike=True), (1,)) for total in (paid, public))
    assert plain.deviation(weights) ** 2 == pytest.approx(3 * variance_of(Noise("laplace", 4.0)) * 55)
    assert isinstance(moved, AddingUp)
    assert float(moved.counts.sum()) == pytest.approx(200.0)
    narrower = stream_cells(held(counts, paid), (1,))
    assert narrower.margin(weights, 0.1) == pytest.approx(plain.margin(weights, 0.05))
    assert stream_cells(held(counts, paid), (0, 1)) is None


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_refusal_names_what_is_counted(neighbours):
    asked = cs.marginal(SCHEMA, ["age"]) + cs.sql(SCHEMA, ["ill AND age < 2", "ill AND age = 4"])
    release = streamed(asked, neighbours, 4, 0.0, 1.0)
    for ask in (
        lambda: release.ask("ill"),
        lambda: release.query("SELECT ill, COUNT(*) FROM visits GROUP BY ill"),
        lambda: release.query("SELECT ill, SHARE(*) FROM visits GROUP BY ill"),
        lambda: release.query("SELECT ill, AVG(age) FROM visits GROUP BY ill"),
        lambda: release.quantile("age", 0.5, where="ill"),
    ):
        with pytest.raises(CannotAnswer, match="does not count") as refused:
            ask()
        assert "every cell of age, 2 listed questions about ill, age" in str(refused.value)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_rate_of_listed_questions_is_answered_from_their_counts(neighbours):
    """No cells are counted, but both counts are."""
    asked = cs.sql(SCHEMA, ["ill", "ill AND age < 2"])
    for release in (
        streamed(asked, neighbours, 4, 0.0, 1e6),
        cs.release(TABLES[0], asked, epsilon=1e6, mechanism="laplace", neighbours=neighbours),
    ):
        found = release.query(
            "SELECT COUNT(*) FILTER (WHERE ill AND age < 2) / COUNT(*) FILTER (WHERE ill) AS r FROM visits"
        )
        one, all_of = (release.ask(text).count for text in ("ill AND age < 2", "ill"))
        said = found.to_dict()
        assert said["r"][0] == pytest.approx(one / all_of, rel=1e-3)
        assert said["r_low"][0] <= one / all_of <= said["r_high"][0]
