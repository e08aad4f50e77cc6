"""Streams: what they count, with which noise, what their file holds, and what a crash leaves."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

import conspectus as cs
from conspectus.curator.stream_counter import StreamCounter
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import Noise
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.prices import price_pure, price_rho
from conspectus.privacy.relation import Neighbours
from conspectus.privacy.tails import noise_margin, variance_of
from conspectus.releases.release import load
from conspectus.streams.horizon import MOST_LEVELS
from conspectus.streams.stream_file import StreamError
from conspectus.streams.stream_plan import StreamPlan
from conspectus.synopses.stream_answers import StreamAnswers
from conspectus.synopses.synopsis import CannotAnswer, Total

ALPHA = 1e-6
SCHEMA = cs.Schema.from_dict(
    {"name": "visits", "columns": {"ill": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 9}}}
)
ASKED = cs.marginal(SCHEMA, ["ill"]) + cs.sql(SCHEMA, ["ill AND age < 5", "age = 3"])


def batches(steps, seed=1, rows=30):
    rng = np.random.Generator(np.random.PCG64(seed))
    sizes = rng.integers(0, rows, steps)
    return [pa.table({"ill": rng.random(n) < 0.3, "age": rng.integers(0, 10, n)}) for n in sizes]


def exact(rows):
    ill, age = (rows[name].to_numpy(zero_copy_only=False) for name in ("ill", "age"))
    return np.array([np.sum(~ill), np.sum(ill), np.sum(ill & (age < 5)), np.sum(age == 3)])


@pytest.mark.parametrize("horizon", [1, 7, 8, None])
@pytest.mark.parametrize("more", [{}, {"delta": 1e-6}, {"neighbours": "add-remove"}, {"events": 2}])
def test_a_huge_budget_counts_exactly_over_all_steps_windows_and_ranges(horizon, more):
    steps = 7 if horizon is None else min(horizon, 7)
    arrived = batches(steps)
    counts = [exact(rows) for rows in arrived]
    with cs.open_stream(SCHEMA, ASKED, horizon=horizon, epsilon=1e6, **more) as stream:
        for rows in arrived:
            stream.append(rows)
        assert stream.steps == steps
        for query in range(4):
            assert stream.value(query).count == pytest.approx(sum(c[query] for c in counts))
            for first, end in itertools.combinations(range(steps + 1), 2):
                found = stream.range(query, first, end)
                assert found.count == pytest.approx(sum(c[query] for c in counts[first:end]))
        total = sum(rows.num_rows for rows in arrived)
        assert stream.value(1).fraction == pytest.approx(sum(c[1] for c in counts) / total)
        assert stream.window(2, 1).count == pytest.approx(counts[-1][2])


def nodes(levels):
    """The noises of a tree: the counter's, then those of its intervals, as sets of steps."""
    return [range(1 << levels)] + [
        range(start, start + (1 << level)) for level in range(levels) for start in range(0, 1 << levels, 1 << level)
    ]


def view(levels, seen):
    """All outputs, and the state after a step, as sums of noises: a matrix; and what each shows of a count so far."""
    every, steps = nodes(levels), 1 << levels
    lines = [[1.0] + [float(t in node) for node in every[1:]] for t in range(steps)]
    moments = list(range(steps))
    if seen is not None:
        lines.append([1.0] + [0.0] * (len(every) - 1))
        moments.append(seen)
        for place, node in enumerate(every[1:], 1):
            if seen in node and seen + 1 in node:
                lines.append([float(i == place) for i in range(len(every))])
                moments.append(None)
    return np.array(lines), moments


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_one_event_costs_at_most_one_noise_and_one_for_each_level(levels):
    """By linear programming over all events and all moments at which the file is seen: the least shift of the noises
    that hides the event. Its L1 norm is never above 1 + levels, which the scale is for, and reaches it in small trees;
    for outputs alone it is less, so that noise for these does not hide a file."""
    worst = {True: 0.0, False: 0.0}
    for event in range(1 << levels):
        for seen in (None, *range(1 << levels)):
            matrix, moments = view(levels, seen)
            moved = np.array([float(moment is not None and moment >= event) for moment in moments])
            number = matrix.shape[1]
            split = np.hstack([matrix, -matrix])
            found = linprog(np.ones(2 * number), A_eq=split, b_eq=-moved, bounds=(0, None), method="highs")
            assert found.status == 0
            worst[seen is None] = max(worst[seen is None], found.fun)
    assert worst[False] <= 1 + levels + 1e-9
    assert worst[True] <= max(levels, 1) + 1e-9
    if levels < 3:
        assert worst == pytest.approx({False: 1 + levels, True: max(levels, 1)})
    assert worst[True] < worst[False] or levels == 0


def test_the_scale_is_the_books_with_the_counter_counted():
    """T = 1024, ε = 1: 11 for one count that is added or removed; 10 would be right for outputs alone (E-46)."""
    one = cs.sql(SCHEMA, ["ill"])
    plan = {"neighbours": "add-remove", "epsilon": 1.0}
    with cs.open_stream(SCHEMA, one, horizon=1024, **plan) as stream:
        # The number of events is counted beside the question: two counts that one event moves.
        assert stream._plan.horizon.tree_at(0).law.scale == 22
    with cs.open_stream(SCHEMA, cs.sql(SCHEMA, ["ill"]), horizon=1024, epsilon=1.0) as stream:
        assert stream._plan.horizon.tree_at(0).law.scale == 11
        act = stream._plan.act
        assert act.l1.replace / act.scale == 1


def test_intervals_are_within_the_books_bound():
    """Corollary 12.3 with ten noises of scale 10 is 171.79, the worked number; intervals are exact, and narrower."""

    def corollary(scale: float, terms: int) -> float:
        return scale * max(math.sqrt(terms), math.sqrt(math.log(40))) * math.sqrt(8 * math.log(40))

    assert corollary(10, 10) == pytest.approx(171.79, abs=0.005)
    with cs.open_stream(SCHEMA, cs.sql(SCHEMA, ["ill"]), horizon=1024, epsilon=1.0) as stream:
        law, terms = stream._plan.horizon.noises(0, 1022)
        margin = noise_margin(law.kind, law.scale, terms, 0.95)
        assert 0.4 * corollary(law.scale, terms) < margin < 0.6 * corollary(law.scale, terms)


def test_errors_grow_as_the_logarithm_to_three_halves_where_steps_alone_grow_as_the_root():
    deviations, levels = [], [2, 4, 8, 12, 16, 20]
    for level in levels:
        with cs.open_stream(SCHEMA, cs.sql(SCHEMA, ["ill"]), horizon=1 << level, epsilon=1.0) as stream:
            law, terms = stream._plan.horizon.noises(0, (1 << level) - 1)
            assert terms == 1 + level
            deviations.append(math.sqrt(variance_of(law) * terms))
    slope = np.polyfit(np.log(1 + np.array(levels)), np.log(deviations), 1)[0]
    assert slope == pytest.approx(1.5, abs=0.02)
    alone = math.sqrt(2 * 2**20)
    assert deviations[-1] < alone / 10


def test_outputs_and_differences_have_the_noise_that_is_said():
    """400 counts at once in 12 streams of 8 steps: variances within 15 % of what is said, and of no other number."""
    schema = cs.Schema.from_dict({"name": "g", "columns": {"v": {"type": "integer", "min": 0, "max": 399}}})
    cells, law, levels = cs.marginal(schema, ["v"]), Noise("laplace", 3.0), 3
    empty = cs.open_table(pa.table({"v": np.zeros(0, dtype=int)}), schema)
    counter = StreamCounter(cells, law, levels, sampler=UnsafeSeededSampler(3))
    shown = []
    for _ in range(12):
        state, outputs = counter.begin(), []
        for place in range(8):
            state, output = counter.step(state, place, empty)
            outputs.append(output)
            assert set(state.noises) == {j for j in range(levels) if (place + 1) % (1 << j)}
        shown.append(outputs)
    found = np.array(shown, dtype=float)  # streams × steps × counts
    one = variance_of(law)
    for at in (0, 3, 7):
        assert found[:, at].var() == pytest.approx((1 + levels) * one, rel=0.15)
    for first, last, terms in ((0, 1, 2), (3, 4, 6), (1, 2, 4), (4, 5, 2)):
        difference = found[:, last] - found[:, first]
        assert difference.var() == pytest.approx(terms * one, rel=0.15)


@pytest.mark.parametrize("more", [{"horizon": 16}, {"horizon": None}, {"horizon": 16, "neighbours": "add-remove"}])
def test_intervals_hold_as_often_as_they_say(more):
    """60 streams, 90 % intervals of the whole and of a window."""
    arrived = batches(6, seed=4, rows=60)
    counts = sum(exact(rows) for rows in arrived)
    window = sum(exact(rows) for rows in arrived[2:5])
    total, part = (sum(rows.num_rows for rows in some) for some in (arrived, arrived[2:5]))
    tables = [cs.open_table(rows, SCHEMA) for rows in arrived]
    missed = [0, 0]
    for _ in range(60):
        with cs.open_stream(SCHEMA, ASKED, epsilon=5.0, **more) as stream:
            for table in tables[:5]:
                stream.append(table)
            stream.append(tables[5])
            found = stream.value(2, confidence=0.9), stream.range(2, 2, 5, confidence=0.9)
        missed[0] += not found[0].low <= counts[2] / total <= found[0].high
        missed[1] += not found[1].low <= window[2] / part <= found[1].high
    assert max(missed) <= binom.ppf(1 - ALPHA, 60, 0.1)


def test_a_stream_is_a_release_that_can_be_saved(tmp_path):
    for horizon in (8, None):
        with cs.open_stream(SCHEMA, ASKED, horizon=horizon, epsilon=2.0, neighbours="add-remove") as stream:
            for rows in batches(5):
                stream.append(rows)
            release = stream.release()
            assert release.answers == pytest.approx([stream.value(i).fraction for i in range(4)])
        path = tmp_path / f"{horizon}.conspectus"
        release.save(path)
        again = load(path)
        assert np.array_equal(again.answers, release.answers)
        assert again.ask("ill AND age < 5") == release.ask("ill AND age < 5")
        assert again.ask("age < 5 AND ill").count == release.ask("ill AND age < 5").count
        with pytest.raises(CannotAnswer, match="does not count"):
            again.ask("ill AND age = 7")
        assert again.guarantee.epsilon == 2.0


def test_a_count_and_its_negation_add_up_to_a_public_number_of_events(tmp_path):
    """Whatever the noise is: by the stream, its release, its file and a SELECT."""
    asked = ASKED + cs.marginal(SCHEMA, ["age"]) + cs.sql(SCHEMA, ["age < 5", "age >= 5", "age = 3"])
    with cs.open_stream(SCHEMA, asked, horizon=8, epsilon=0.5, neighbours="replace") as stream:
        for rows in batches(5):
            stream.append(rows)
        release = stream.release()
        rows = sum(len(batch) for batch in batches(5))
        assert stream.window(0, 2).count + stream.window(1, 2).count == pytest.approx(sum(map(len, batches(5)[3:])))
        assert release.answers == pytest.approx([stream.value(i).fraction for i in range(len(asked))])
    release.save(tmp_path / "x.conspectus")
    for held in (release, load(tmp_path / "x.conspectus")):
        for text in ("ill", "age = 3", "age < 5", "age = 7", "ill AND age < 5", "ill OR NOT ill"):
            one, rest = held.ask(text), held.ask(f"NOT ({text})")
            assert one.count + rest.count == pytest.approx(rows)
            assert (one.low + rest.high, one.high + rest.low) == pytest.approx((1, 1))
            selects = (f"SELECT COUNT(*) AS c FROM visits WHERE {rows_of}" for rows_of in (text, f"NOT ({text})"))
            # A SELECT shows whole counts that are possible.
            assert sum(held.query(select).to_dict()["c"][0] for select in selects) == pytest.approx(rows, abs=1.01)
        with pytest.raises(CannotAnswer, match="does not count"):
            held.ask("ill AND age = 7")


def test_a_question_that_is_counted_twice_is_the_mean_with_its_noise():
    """By fixed counts: equal questions in one list have one noise, a cell and a listed question two."""
    asked = cs.marginal(SCHEMA, ["ill"]) + cs.sql(SCHEMA, ["ill", "age = 3", "age = 3"])
    counts, law = np.array([61.0, 30.0, 50.0, 7.0, 7.0]), Noise("laplace", 4.0)
    held = StreamAnswers(SCHEMA.domain, asked, counts, law, 3, Total(value=100.0, exact=True))
    ill = held.estimate(asked[1:2], 0.95)
    assert ill.count == pytest.approx((100 - 61 + 30 + 50) / 3)
    assert ill.high - ill.count == pytest.approx(noise_margin("laplace", 4.0, 9, 0.95) / 3)
    assert held.estimate(asked[0:1], 0.95).count == pytest.approx(100 - ill.count)
    age = held.estimate(asked[3:4], 0.95)
    assert (age.count, age.high - age.count) == pytest.approx((7.0, noise_margin("laplace", 4.0, 3, 0.95)))
    meta, tables = held.parts()
    again = StreamAnswers.from_parts(SCHEMA.domain, meta, tables)
    assert again.answer(asked).tolist() == held.answer(asked).tolist()
    before = StreamAnswers.from_parts(SCHEMA.domain, {key: meta[key] for key in meta if key != "adding_up"}, tables)
    assert before.answer(asked).tolist() == (counts / 100).tolist()
    assert before.estimate(asked[0:1], 0.95).count == 61
    noisy = Total(value=100.0, exact=False, kind="laplace", scale=4.0, terms=3)
    apart = StreamAnswers(SCHEMA.domain, asked, counts, law, 3, noisy)
    assert apart.estimate(asked[0:1], 0.95).count == 61


def test_the_budget_is_debited_once_for_all_steps(tmp_path):
    ledger = Ledger.create(
        tmp_path / "v.ledger",
        budget=Budget(epsilon=1.0),
        neighbours="replace",
        unit=str(SCHEMA.unit),
        schema_fingerprint=SCHEMA.fingerprint,
        table=SCHEMA.name,
    )
    with cs.open_stream(SCHEMA, ASKED, horizon=32, epsilon=0.75, ledger=ledger) as stream:
        assert float(ledger.spent) == pytest.approx(0.75)
        for rows in batches(4):
            stream.append(rows)
        assert float(ledger.spent) == pytest.approx(0.75)
    path = tmp_path / "v.stream"
    with pytest.raises(BudgetExceeded):
        cs.open_stream(SCHEMA, ASKED, horizon=32, epsilon=0.5, ledger=ledger, path=path)
    assert not path.exists()
    assert ledger.spent <= Fraction(3, 4)


def test_a_file_goes_on_and_holds_neither_counts_nor_erased_noise(tmp_path):
    path = tmp_path / "v.stream"
    arrived = batches(6, seed=9)
    with cs.open_stream(SCHEMA, ASKED, horizon=8, epsilon=0.1, path=path) as stream:
        told = []
        for rows in arrived[:3]:
            before = stream._file.state()
            stream.append(rows)
            after = stream._file.state()
            content = path.read_bytes()
            for level, noise in before.noises.items():
                if level not in after.noises:
                    assert noise.tobytes() not in content
            assert before.counter.tobytes() not in content
            told.append(stream.value(1))
        with pytest.raises(StreamError, match="in use"):
            cs.resume_stream(path)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    with cs.resume_stream(path) as stream:
        assert stream.steps == 3
        assert stream.range(1, 0, 2) == told[1]
        stream.append(arrived[3])
        assert stream.range(1, 0, 2) == told[1]
    exactly = sum(exact(rows) for rows in arrived[:4])
    with cs.resume_stream(path) as stream:
        # Noise on each: all four counts are right, or four noises of bytes that are there, with a chance of 10⁻⁹.
        assert not np.array_equal(stream._file.state().counter, exactly)


CHILD = """
import sys, pyarrow as pa, conspectus as cs
with cs.resume_stream(sys.argv[1]) as stream:
    stream.append(pa.table({"ill": [True] * 3, "age": [1, 2, 3]}))
    print("open", flush=True)
    while stream.steps < 100000:
        stream.append(pa.table({"ill": [True] * 3, "age": [1, 2, 3]}))
"""


def killed(path, rng):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    child.stdout.readline()
    time.sleep(float(rng.uniform(0.0, 0.4)))
    child.send_signal(signal.SIGKILL)
    child.wait()


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.audit)])
def test_kills_lose_no_step_and_draw_no_noise_again(tmp_path, kills):
    """After each kill the outputs of all earlier steps are what they were, and every step done is counted: at a huge ε
    the count is three for each step."""
    path, rng = tmp_path / "v.stream", np.random.Generator(np.random.PCG64(6))
    one = cs.sql(SCHEMA, ["ill"])
    cs.open_stream(SCHEMA, one, horizon=1 << 20, epsilon=1e6, path=path).close()
    known: list[bytes] = []
    for _ in range(kills):
        killed(path, rng)
        with cs.resume_stream(path) as stream:
            outputs = [stream._file.output(step)[1].tobytes() for step in range(stream.steps)]
            assert outputs[: len(known)] == known
            known = outputs
            if stream.steps:
                assert stream.value(0).count == pytest.approx(3 * stream.steps)
    assert known


def test_what_is_no_stream(tmp_path):
    made = {"epsilon": 1.0}
    for horizon in (0, -3, 2.5, 1 << 50):
        with pytest.raises(StreamError, match="horizon"):
            cs.open_stream(SCHEMA, ASKED, horizon=horizon, **made)
    with pytest.raises(StreamError, match="events"):
        cs.open_stream(SCHEMA, ASKED, events=0, **made)
    with pytest.raises(StreamError, match="add up"):
        cs.open_stream(SCHEMA, cs.mode_shares(SCHEMA), **made)
    with pytest.raises(StreamError, match="single events"):
        cs.open_stream(SCHEMA, ASKED, events=2, ledger=tmp_path / "x.ledger", **made)
    person = cs.Schema.from_dict({**SCHEMA.to_dict(), "unit": {"kind": "id", "column": "who", "max_rows": 2}})
    with pytest.raises(StreamError, match="events="):
        cs.open_stream(person, cs.sql(person, ["ill"]), **made)
    with cs.open_stream(SCHEMA, ASKED, horizon=1, **made) as stream:
        with pytest.raises(StreamError, match="0 steps"):
            stream.value(0)
        stream.append(batches(1)[0])
        with pytest.raises(StreamError, match="over"):
            stream.append(batches(1)[0])
        for query in (-1, 4, True):
            with pytest.raises(StreamError, match="numbered"):
                stream.value(query)
        with pytest.raises(StreamError, match="steps"):
            stream.window(0, 2)
    path = tmp_path / "v.stream"
    path.write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(StreamError, match="not a stream"):
        cs.resume_stream(path)
    with pytest.raises(StreamError, match="already exists"):
        cs.open_stream(SCHEMA, ASKED, path=path, **made)
    with pytest.raises(StreamError, match="no stream"):
        cs.resume_stream(tmp_path / "gone.stream")


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM state WHERE level = 1",
        "DELETE FROM state WHERE level = 2",
        "DELETE FROM state WHERE level = -1",
        "UPDATE state SET level = 7 WHERE level = 1",
        "UPDATE state SET content = x'00' WHERE level = 1",
        "DELETE FROM outputs WHERE step = 1",
        "UPDATE outputs SET content = x'0011223344556677' WHERE step = 2",
        "UPDATE outputs SET rows = -1 WHERE step = 2",
        "DELETE FROM terms",
        "UPDATE terms SET content = '[]'",
        "UPDATE terms SET content = '{'",
        "UPDATE terms SET content = '{}'",
        "UPDATE terms SET content = replace(content, '\"horizon\": 8', '\"horizon\": 80')",
        "DROP TABLE state",
    ],
)
def test_a_file_without_a_noise_or_a_step_is_refused(tmp_path, change):
    """Without one of its noises the next step would be shown with less noise than was paid for."""
    path = tmp_path / "v.stream"
    with cs.open_stream(SCHEMA, ASKED, horizon=8, epsilon=1.0, path=path) as stream:
        for batch in batches(3):
            stream.append(batch)
    with cs.resume_stream(path) as stream:
        assert stream.steps == 3
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    with pytest.raises(StreamError, match=r"damaged|holds no stream"):
        cs.resume_stream(path)


def test_a_name_that_is_no_text_is_refused(tmp_path):
    """SQLite quotes such a name in its message, which is then no text either."""
    path = tmp_path / "v.stream"
    with cs.open_stream(SCHEMA, ASKED, horizon=8, epsilon=1.0, path=path) as stream:
        stream.append(batches(1)[0])
    whole = path.read_bytes()
    refused = 0
    for found in re.finditer(rb"terms|outputs|state|marks|CREATE|content", whole):
        path.write_bytes(whole[: found.start()] + b"\xff" + whole[found.start() + 1 :])
        try:
            cs.resume_stream(path).close()
        except StreamError:
            refused += 1
    assert refused >= 8


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_no_tree_costs_more_than_the_first_which_is_debited(delta: float, neighbours: str) -> None:
    """Scales are floats: before, a later tree could cost more in the last bit."""
    for epsilon, events in itertools.product((0.1, 0.3, 1.0, 2.7, 10.0), (1, 3)):
        terms = {"horizon": None, "events": events, "neighbours": neighbours}
        plan = StreamPlan(SCHEMA, ASKED, terms, Budget(epsilon=epsilon, delta=delta))
        price = price_rho if delta else price_pure
        acts = [plan.act_at((1 << levels) - 1) for levels in range(MOST_LEVELS)]
        assert max(price(act, Neighbours.of(neighbours)) for act in acts) == price(plan.act, Neighbours.of(neighbours))


@pytest.mark.parametrize("kept", [False, True])
def test_a_fork_cannot_append(kept, tmp_path) -> None:
    """Two processes would go on from the same noise, and the difference of what they publish would be exact."""
    path = tmp_path / "visits.stream" if kept else None
    stream = cs.open_stream(SCHEMA, ASKED, horizon=2, epsilon=1.0, path=path)
    stream.append(batches(1)[0])
    child = os.fork()
    if not child:
        code = 0
        try:
            stream.append(batches(1)[0])
        except StreamError:
            code = 1
        stream.close()  # the parent's stream must survive this
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    stream.append(batches(1)[0])
    assert stream.steps == 2
    stream.close()
