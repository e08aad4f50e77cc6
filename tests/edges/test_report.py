"""The report: self-contained, inert whatever the columns are called, and true to the release."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.privacy import composition
from conspectus.privacy.accounting import epsilon_of
from conspectus.privacy.guarantee import Budget, Guarantee
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.releases.planning import problem_of
from conspectus.releases.release import Release
from conspectus.releases.run import run
from conspectus.report import report_of, write_report
from conspectus.report.comparison import comparison
from conspectus.report.meaning import group_of, meaning_of, percent, rarity
from conspectus.report.pictures import MOST_BARS, Bar, bars, heat_map

EVIL = "<script>alert('x')</script>"
ALSO_EVIL = '"><img src=x onerror=alert(1)>'


def table(names: tuple[str, ...] = ("sex", "age", "ill"), *, draft: bool = False) -> Any:
    first, second, third = names
    schema = cs.Schema.from_dict(
        {
            "name": names[0],
            "draft": draft,
            "columns": {
                first: {"type": "categorical", "values": ["f", ALSO_EVIL]},
                second: {"type": "integer", "min": 0, "max": 79, "width": 10},
                third: {"type": "boolean"},
            },
        }
    )
    rows = range(400)
    data = {
        first: [["f", ALSO_EVIL][i % 2] for i in rows],
        second: [i % 80 for i in rows],
        third: [i % 3 == 0 for i in rows],
    }
    return cs.open_table(pa.table(data), schema)


class Tags(HTMLParser):
    """Every element with its attributes, and whether the elements nest."""

    VOID = ("meta", "rect", "line", "circle")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


@pytest.fixture(scope="module")
def marginals() -> Release:
    opened = table()
    return cs.release(opened, cs.marginals(opened.schema, 2), epsilon=1.0, delta=1e-6, mechanism="gaussian")


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "mwem"])
def test_a_report_is_one_whole_inert_file(mechanism: str) -> None:
    opened = table((EVIL, ALSO_EVIL, "</style><script>"))
    made = cs.release(opened, cs.marginals(opened.schema, 2), epsilon=1.0, delta=1e-6, mechanism=mechanism)
    tags = parsed(report_of(made))
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "img", "link", "iframe", "object", "embed", "a", "form", "base"}
    attributes = {name for _, attributes in tags.seen for name in attributes}
    assert not {name for name in attributes if name.startswith("on")}
    assert not attributes & {"src", "href", "style"}
    assert {"svg", "table", "figure"} <= names


def test_no_resource_comes_from_elsewhere(marginals: Release) -> None:
    text = report_of(marginals)
    assert not re.search(r"https?://|url\(|@import", text)


def test_the_report_says_what_was_promised(marginals: Release) -> None:
    text = report_of(marginals)
    for part in (
        str(marginals.guarantee).replace("'", "&#x27;"),
        "gaussian",
        "1 in 1,000,000",
        "400",
        "Bun &amp; Steinke",
    ):
        assert part in text
    for column in ("sex", "age", "ill"):
        assert f"<figcaption>{column}</figcaption>" in text
    assert text.count("<figure class=wide") == 3  # beliefs and two heat maps


def test_the_pictures_show_the_published_counts(marginals: Release) -> None:
    text = report_of(marginals)
    for count, low, high in zip(*(marginals.table(["ill"])[name].to_pylist() for name in ("count", "low", "high"))):
        assert f"{count:,}, interval {low:,} to {high:,}" in text


def test_a_file_is_named_with_its_checksum(marginals: Release, tmp_path: Path) -> None:
    path = tmp_path / "r.conspectus"
    marginals.save(path)
    write_report(cs.load(path), tmp_path / "r.html", source=path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_the_ledger_is_shown(tmp_path: Path) -> None:
    opened = table()
    cs.Ledger.create(
        tmp_path / "l",
        budget=Budget(epsilon=2.0, delta=1e-6),
        neighbours="replace",
        unit="row",
        schema_fingerprint=opened.schema.fingerprint,
        table="sex",
    )
    made = cs.release(
        opened, cs.marginals(opened.schema, 1), epsilon=1.0, delta=1e-6, mechanism="gaussian", ledger=tmp_path / "l"
    )
    write_report(made, tmp_path / "r.html", ledger=tmp_path / "l")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "gaussian on 12 queries" in text
    assert "settled" in text


def test_warnings_stand_at_the_top() -> None:
    opened = table(draft=True)
    made = cs.release(opened, cs.marginals(opened.schema, 1), epsilon=1.0, delta=0.1, mechanism="gaussian")
    text = report_of(made)
    assert text.index("drafted from the data") < text.index("What ε means here")
    assert text.index("1/400") < text.index("What ε means here")


def test_a_seeded_release_claims_nothing() -> None:
    opened = table()
    problem = problem_of(
        opened.schema,
        cs.marginals(opened.schema, 1),
        budget=Budget(epsilon=1.0),
        neighbours=None,
        rows=None,
    )
    text = report_of(run(opened, problem, mechanism="laplace", settings={}, sampler=UnsafeSeededSampler(1)))
    assert "NOT PRIVATE" in text
    assert "(1, 0)-differential privacy" not in text
    assert "What ε means here" not in text


def test_questions_without_marginals_make_a_report_without_pictures() -> None:
    opened = table()
    made = cs.release(
        opened, cs.sql(opened.schema, ["ill AND age < 10", "age >= 60 AND NOT ill"]), epsilon=1.0, mechanism="laplace"
    )
    text = report_of(made)
    parsed(text)
    assert "no marginals that could be drawn" in text


def test_concentrated_budgets_show_the_epsilon_they_imply() -> None:
    opened = table()
    made = cs.release(opened, cs.marginals(opened.schema, 1), rho=0.1, mechanism="gaussian")
    assert made.guarantee.epsilon is None
    meaning = meaning_of(made.guarantee)
    assert meaning.implied
    assert 1.5 < meaning.epsilon < 3
    parsed(report_of(made))


def guarantee(epsilon: float, delta: float) -> Guarantee:
    return Guarantee(epsilon=epsilon, delta=delta, rho=None, neighbours="replace", unit="row", theorem="none")


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0, 40.0, 1000.0])
@pytest.mark.parametrize("prior", [0.01, 0.5, 0.9])
def test_beliefs_move_by_the_odds_factor_and_no_more(epsilon: float, prior: float) -> None:
    low, high = meaning_of(guarantee(epsilon, 0.0)).beliefs(prior)
    assert 0 <= low <= prior * (1 + 1e-12)
    assert prior * (1 - 1e-12) <= high <= 1
    if epsilon <= 5:
        odds = prior / (1 - prior)
        assert math.isclose(high / (1 - high), odds * math.exp(epsilon), rel_tol=1e-9)
        assert math.isclose(low / (1 - low), odds * math.exp(-epsilon), rel_tol=1e-9)


def test_randomised_response_reaches_the_best_guess() -> None:
    # The mechanism that is right with probability e^ε/(1+e^ε) is ε-private, so the bound cannot be smaller.
    meaning = meaning_of(guarantee(math.log(3), 0.0))
    assert math.isclose(meaning.best_guess, 0.75)
    assert meaning_of(guarantee(math.log(3), 0.1)).best_guess == pytest.approx((3 + 0.1) / 4)


def test_percent_never_rounds_to_certainty() -> None:
    for up in (True, False):
        assert [percent(x, up=up) for x in (0.0001, 0.123, 0.99999)] == ["under 0.1 %", "12.3 %", "over 99.9 %"]
    assert [percent(0.12301, up=up) for up in (True, False)] == ["12.4 %", "12.3 %"]
    assert [percent(0.9992, up=up) for up in (True, False)] == ["over 99.9 %", "99.9 %"]
    assert [percent(0.0006, up=up) for up in (True, False)] == ["0.1 %", "under 0.1 %"]


@pytest.mark.parametrize(("epsilon", "delta"), [(1.1, 0.0), (1.00001, 1.2344e-6), (0.12344, 3.3e-7), (2.0, 1e-9)])
def test_promises_are_rounded_up(epsilon: float, delta: float) -> None:
    """The page says no less than what is promised, nor much more."""
    opened = table()
    made = cs.release(opened, cs.marginals(opened.schema, 1), epsilon=1.0, mechanism="laplace")
    text = report_of(dataclasses.replace(made, guarantee=guarantee(epsilon, delta)))
    factors = re.findall(r"a factor of (?:at most )?([0-9.]*[0-9])", text)
    assert len(factors) == 2
    assert all(math.exp(epsilon) <= float(factor) * (1 + 1e-12) <= 1.01 * math.exp(epsilon) for factor in factors)
    growth = re.findall(r"ε becomes k times ([0-9.]*[0-9])", text)
    groups = re.findall(r"(?:together|for ten) ε is ([0-9.]*[0-9])(?: and δ is ([0-9.]*[0-9](?:e-[0-9]+)?))?", text)
    told = [float(said) / times for said, times in zip([*growth, *(found for found, _ in groups)], (1, 2, 10))]
    assert len(told) == 3
    for (_, slack), people in zip(groups, (2, 10)):
        needed = delta * sum(math.exp(place * epsilon) for place in range(people))
        assert needed <= float(slack or 0) * (1 + 1e-12) <= 1.01 * needed
    assert all(epsilon <= number * (1 + 1e-12) <= 1.001 * epsilon for number in told)
    slacks = [float(number) for number in re.findall(r"δ = ([0-9.]+(?:e-[0-9]+)?)", text)]
    assert (len(slacks) >= 3) == (delta > 0)
    assert all(delta <= slack * (1 + 1e-12) <= 1.01 * delta for slack in slacks)
    if delta:
        assert delta <= 1 / int(rarity(delta).removeprefix("1 in ").replace(",", "")) * (1 + 1e-12)
        assert rarity(delta) in text


def told_theorems(made: Release) -> bool:
    return "under several theorems" in report_of(made)


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.05}])
def test_only_a_list_that_was_declared_is_priced_by_several_theorems(tmp_path: Path, budget) -> None:
    """Acts of a session, or of a loop that may stop early, look cheaper than what was promised of them."""
    opened = table()
    questions = cs.marginals(opened.schema, 1)
    fixed = cs.release(opened, questions, mechanism="gaussian" if "delta" in budget else "laplace", **budget)
    assert fixed.declared
    fixed.save(tmp_path / "r")
    assert told_theorems(cs.load(tmp_path / "r"))
    with cs.open_session(opened, mechanism="pmw", questions=10, **budget) as session:
        session.ask("ill")
        session.release().save(tmp_path / "s")
    loop = cs.release(opened, questions, mechanism="iterative", **budget)
    assert not loop.declared
    for made in (loop, cs.load(tmp_path / "s"), dataclasses.replace(fixed, events=fixed.events[:0], declared=False)):
        assert not told_theorems(made)
        text = report_of(made)
        assert "Their sum is what was spent, and no promise" in text
        stated = made.guarantee.epsilon
        assert (f"ε = {stated:.4g}" if stated is not None else f"ρ = {made.guarantee.rho:.4g}") in text


def test_a_declared_list_is_one_under_a_ledger_too(tmp_path: Path) -> None:
    opened = table()
    schema = opened.schema
    bound = {"neighbours": "replace", "unit": "row", "schema_fingerprint": schema.fingerprint, "table": "t"}
    cs.Ledger.create(tmp_path / "l", budget=Budget(epsilon=2.0), **bound)
    made = cs.release(opened, cs.marginals(schema, 1), epsilon=1.0, mechanism="laplace", ledger=tmp_path / "l")
    assert made.declared
    assert told_theorems(made)


def test_groups_are_priced_by_rho_where_there_is_one() -> None:
    held = dataclasses.replace(guarantee(1.0, 1e-6), rho=0.02)
    found = group_of(held, 10)
    assert found is not None
    assert (found.epsilon, found.delta) == (epsilon_of(composition.group_rho(0.02, 10), 1e-6), 1e-6)
    assert group_of(guarantee(1.0, 1e-6), 20) is None  # δ·(1 + e + … + e¹⁹) is more than 1
    opened = table()
    made = cs.release(opened, cs.marginals(opened.schema, 1), epsilon=1.0, mechanism="laplace")
    assert "ρ becomes k² times 0.02" in report_of(dataclasses.replace(made, guarantee=held))
    assert "for ten nothing is promised" in report_of(dataclasses.replace(made, guarantee=guarantee(5.0, 1e-6)))


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"epsilon": 10.0}, None),
        ({"epsilon": 10.5}, "epsilon = 10.5 is above 10"),
        ({"epsilon": 12.0, "delta": 1e-6}, "epsilon = 12 is above 10"),
        ({"rho": 0.5}, None),
        ({"rho": 5.0}, "epsilon = 2"),
    ],
)
def test_a_large_epsilon_is_warned_of(budget, said, tmp_path: Path) -> None:
    opened = table()
    made = cs.release(opened, cs.marginals(opened.schema, 1), mechanism="laplace", **budget)
    with cs.open_session(opened, mechanism="perceptron", questions=10, **budget) as session:
        for promised in (made.guarantee, session.guarantee):
            found = [warning for warning in promised.warnings if "above 10" in warning]
            assert [warning[: len(said or "")] for warning in found] == ([said] if said else [])
    assert ("A weak promise" in report_of(made)) == bool(said)


def test_the_comparison_agrees_with_the_theorems() -> None:
    opened = table()
    made = cs.release(opened, cs.marginals(opened.schema, 1), epsilon=1.0, mechanism="laplace")
    (basic,) = comparison(made.events, 0.0, "replace")
    assert basic.epsilon == pytest.approx(made.guarantee.epsilon)
    made = cs.release(opened, cs.marginals(opened.schema, 1), epsilon=1.0, delta=1e-6, mechanism="mwem")
    basic, advanced, concentrated = comparison(made.events, 1e-6, "replace")
    assert concentrated.epsilon is not None
    assert concentrated.epsilon == pytest.approx(made.guarantee.epsilon, rel=1e-6)
    assert basic.epsilon is not None
    assert basic.epsilon > concentrated.epsilon
    assert advanced.epsilon is not None
    assert advanced.epsilon > concentrated.epsilon


@pytest.mark.parametrize("budget", [{"epsilon": 1e15}, {"epsilon": 1e5, "delta": 0.5}, {"rho": 1e9}, {"epsilon": 1e-9}])
def test_absurd_budgets_still_make_a_page(budget: dict[str, float]) -> None:
    opened = table()
    made = cs.release(opened, cs.marginals(opened.schema, 2), mechanism="projection", **budget)
    text = report_of(made)
    parsed(text)
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower().replace("nance", "")


def test_pictures_refuse_what_does_not_fit() -> None:
    bar = Bar(label="x", count=1, low=None, high=None, noisy=False)
    assert bars([bar] * (MOST_BARS + 1), title="t") == ""
    assert bars([], title="t") == ""
    assert (
        heat_map(
            [[Bar(label="", count=1, low=None, high=None, noisy=False)] * 30], rows=["a"], columns=["b"] * 30, title="t"
        )
        == ""
    )
    for many in (1, 14, 15, MOST_BARS):
        assert bars([dataclasses.replace(bar, low=0, high=2)] * many, title="t").count("<rect") == many
    assert "NaN" not in bars([dataclasses.replace(bar, count=0)] * 3, title="t")
