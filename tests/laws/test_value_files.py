"""Files of single values: they say what they said, and what contradicts itself or is damaged is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import conspectus as cs
from conspectus.cli import run
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import LedgerMismatch
from conspectus.releases.release_file import HoldsValues
from conspectus.report import report_of, write_report
from conspectus.stability.aggregated import AggregateError
from conspectus.synopses import files

SCHEMA = cs.Schema.from_dict(
    {
        "name": "people",
        "columns": {
            "age": {"type": "integer", "min": 0, "max": 40},
            "pay": {"type": "integer", "min": 0, "max": 199, "width": 5},
            "sort": {"type": "categorical", "values": ["x", "<y>", "z"]},
        },
    }
)
RNG = np.random.default_rng(3)
TABLE = cs.open_table(
    pa.table(
        {
            "age": RNG.integers(0, 41, 900),
            "pay": RNG.integers(0, 200, 900),
            "sort": RNG.choice(["x", "<y>", "z"], 900, p=[0.1, 0.7, 0.2]),
        }
    ),
    SCHEMA,
)


def mean_age(codes: Any) -> float:
    return float(codes[:, 0].mean())


def both(codes: Any) -> tuple[float, float]:
    return mean_age(codes), float(codes[:, 1].mean())


MEAN = cs.aggregated(SCHEMA, mean_age, blocks=6, range=(0, 40.1), by="mean", default=40.1)
PAIR = cs.aggregated(SCHEMA, both, blocks=6, range={"b": (0, 40), "a": (0, 39)}, levels=41, public_seed=5)
VOTES = cs.aggregated(SCHEMA, lambda codes: "yes", blocks=6, values=["no", "yes", None, 3, 0.5])
APPROXIMATE = {"epsilon": 4.0, "delta": 1e-6}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "laplace": (MEAN, {"epsilon": 1.0}),
    "gaussian": (MEAN, APPROXIMATE),
    "choices": (PAIR, {"epsilon": 1.0}),
    "exponential": (PAIR, APPROXIMATE),
    "stable votes": (PAIR, {**APPROXIMATE, "mechanism": "stable"}),
    "noisy max": (VOTES, {"epsilon": 1.0, "mechanism": "noisy-max"}),
    "concentrated": (cs.column_mode(SCHEMA, "sort"), {"rho": 0.1}),
    "median": (cs.column_median(SCHEMA, "age"), {"epsilon": 1.0}),
    "stable": (cs.column_mode(SCHEMA, "sort"), {**APPROXIMATE, "mechanism": "stable"}),
    "nothing": (cs.column_median(SCHEMA, "age"), {"epsilon": 0.01, "delta": 1e-6, "mechanism": "stable"}),
    "propose-test-release": (
        cs.column_median(SCHEMA, "pay"),
        {**APPROXIMATE, "mechanism": "propose-test-release", "within": 3},
    ),
    "scale": (cs.interquartile_range(SCHEMA, "pay", bins=1), APPROXIMATE),
    "no scale": (cs.interquartile_range(SCHEMA, "pay"), {"epsilon": 0.01, "delta": 1e-6}),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A file of each case, made once."""
    folder = tmp_path_factory.mktemp("values")

    def path(name: str) -> Path:
        found = folder / f"{name}.conspectus"
        if not found.exists():
            wanted, how = CASES[name]
            cs.release_value(TABLE, wanted, **how).save(found)
        return found

    return path


def rewritten(path: Path, to: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The same file with another manifest, packed as a release packs it."""
    contents = files.read(path)
    change(contents.manifest)
    files.write(to, contents.manifest, contents.workload, contents.tables)
    return to


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", CASES)
def test_a_file_says_what_was_said(tmp_path: Path, name: str, neighbours: str) -> None:
    """Its acts are read back and made afresh from public facts: this compares them with what the curator debited."""
    wanted, how = CASES[name]
    made = cs.release_value(TABLE, wanted, neighbours=neighbours, confidence=0.9, **how)
    made.save(tmp_path / "one")
    again = cs.load_value(tmp_path / "one")
    assert again.values == made.values
    assert again.outcomes == made.outcomes
    assert (again.guarantee, again.events, again.mechanism) == (made.guarantee, made.events, made.mechanism)
    expected = [(p.notes, p.widths, p.rank, p.distance, p.within, p.declared) for p in (made.plan, again.plan)]
    assert expected[0] == expected[1]
    assert again.schema.fingerprint == SCHEMA.fingerprint
    again.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_units_and_ledgers(tmp_path: Path) -> None:
    """Ids of several rows, rows that were dropped, and a ledger that takes half of a delta."""
    declared = {**SCHEMA.to_dict(), "unit": {"kind": "id", "column": "who", "max_rows": 2}}
    schema = cs.Schema.from_dict(declared)
    rows = pa.table({"age": [3] * 80, "pay": [7] * 80, "sort": ["x"] * 80, "who": [str(i // 4) for i in range(80)]})
    bound = {"neighbours": "add-remove", "unit": str(schema.unit), "schema_fingerprint": schema.fingerprint}
    cap = Budget(epsilon=30.0, delta=1e-3)
    ledger = cs.Ledger.create(tmp_path / "l", budget=cap, table="people", aside=0.5, **bound)
    for neighbours in ("replace", "add-remove"):
        for mechanism in ("permute-and-flip", "exponential", "stable"):
            how = {"neighbours": neighbours, "mechanism": mechanism, "epsilon": 2.0, "delta": 1e-5}
            used = {"ledger": ledger} if neighbours == "add-remove" else {}
            made = cs.release_value(cs.open_table(rows, schema), cs.column_median(schema, "age"), **how, **used)
            made.save(tmp_path / "one")
            assert cs.load_value(tmp_path / "one").values == made.values
    write_report(made, tmp_path / "page.html", ledger=ledger, source=tmp_path / "one")
    assert "The ledger" in (tmp_path / "page.html").read_text()
    other = cs.release_value(TABLE, cs.column_median(SCHEMA, "age"), epsilon=1.0)
    with pytest.raises(LedgerMismatch):
        write_report(other, tmp_path / "page.html", ledger=ledger)


def smaller(manifest: dict[str, Any]) -> None:
    """One unit moves a seventh of what it moves: the same noise costs less."""
    for act in manifest["events"]:
        for field in ("reach", "reach_squared", "reach_max", "moved"):
            bounds = act.get(field, {})
            bounds.update({side: str(Fraction(bound) / 7) for side, bound in bounds.items()})


def fewer(manifest: dict[str, Any]) -> None:
    manifest["events"].pop()


def more(manifest: dict[str, Any]) -> None:
    prices = {name: 9e9 for name in ("epsilon", "rho") if manifest["guarantee"][name] is not None}
    manifest["guarantee"].update(prices)
    manifest["events"].append(manifest["events"][0])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("change", [smaller, fewer, more])
def test_acts_that_do_not_publish_such_values_are_refused(
    tmp_path: Path, saved: Callable[[str], Path], name: str, change: Callable[[dict[str, Any]], None]
) -> None:
    path = saved(name)
    cs.load_value(rewritten(path, tmp_path / "same", lambda manifest: None))
    rewritten(path, tmp_path / "other", change)
    if change is smaller and cs.load_value(path).plan.epsilon is not None:
        return  # the act of a choice says its ε alone
    with pytest.raises(files.BadSynopsisFile):
        cs.load_value(tmp_path / "other")


@pytest.mark.parametrize(("name", "field", "factor"), [("laplace", "scale", 16), ("gaussian", "sigma_squared", 256)])
def test_intervals_are_those_of_the_noise_that_was_paid_for(
    tmp_path: Path, saved: Callable[[str], Path], name: str, field: str, factor: int
) -> None:
    """A file of a sixteenth of the price has intervals sixteen times as wide: it cannot promise both."""

    def cheaper(manifest: dict[str, Any]) -> None:
        [act] = manifest["events"]
        act[field] = str(Fraction(act[field]) * factor)

    before, after = cs.load_value(saved(name)), cs.load_value(rewritten(saved(name), tmp_path / "other", cheaper))
    widths = [release.values[0].high - release.values[0].low for release in (before, after)]
    assert 15.5 < widths[1] / widths[0] < 16.5


def set_to(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        here: Any = manifest
        for key in keys[:-1]:
            here = here[key]
        here[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("median", set_to("values", "outcomes", value=[41]), "cannot have given"),
        ("median", set_to("values", "outcomes", value=[None]), "cannot have given"),
        ("median", set_to("values", "outcomes", value=[True]), "cannot have given"),
        ("median", set_to("values", "outcomes", value=[3, 3]), "cannot have given"),
        ("laplace", set_to("values", "outcomes", value=[1 << 70]), "cannot have given"),
        ("laplace", set_to("values", "outcomes", value=[3.5]), "cannot have given"),
        ("laplace", set_to("values", "outcomes", value=[1 << 50]), "cannot have given"),
        ("gaussian", set_to("values", "outcomes", value=[-(1 << 50)]), "cannot have given"),
        ("propose-test-release", set_to("values", "outcomes", value=[1 << 30]), "cannot have given"),
        ("scale", set_to("values", "outcomes", value=[-(1 << 39)]), "cannot have given"),
        ("scale", set_to("values", "outcomes", value=[1 << 39]), "cannot have given"),
        ("no scale", set_to("values", "outcomes", value=[3, 4]), "cannot have given"),
        ("no scale", set_to("values", "outcomes", value=[None]), "not those that publish"),
        ("stable", set_to("values", "outcomes", value=[7]), "cannot have given"),
        ("median", set_to("values", "confidence", value=1.0), "no confidence"),
        ("median", set_to("values", "confidence", value=True), "no confidence"),
        ("median", set_to("mechanism", value="laplace"), "not those that publish"),
        ("median", set_to("mechanism", value="exponential"), "not those that publish"),
        ("median", set_to("values", "within", value=3), "not those that publish"),
        ("propose-test-release", set_to("values", "within", value=40), "not those that publish"),
        ("median", set_to("guarantee", "epsilon", value=0.5), "cost more"),
        ("gaussian", set_to("guarantee", "rho", value=1e-5), "cost more"),
        ("median", set_to("guarantee", "unit", value="household"), "than its schema protects"),
        ("stable", set_to("guarantee", "neighbours", value="nobody"), "fit together"),
        ("laplace", set_to("values", "wanted", "blocks", value=1), "fit together"),
        ("choices", set_to("values", "wanted", "names", value=["a"]), "fit together|not those|cannot have"),
        ("median", set_to("values", "wanted", "column", value="sort"), "fit together"),
        ("median", set_to("values", "wanted", "kind", value="mean"), "fit together"),
        ("median", set_to("values", "wanted", "column", value="nowhere"), "fit together"),
        ("median", set_to("events", value=[]), "cost more"),
    ],
)
def test_what_contradicts_itself_is_refused(
    tmp_path: Path, saved: Callable[[str], Path], name: str, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    changed = rewritten(saved(name), tmp_path / "changed", change)
    with pytest.raises(files.BadSynopsisFile, match=said):
        cs.load_value(changed)


@pytest.mark.parametrize("name", ["laplace", "exponential", "noisy max", "propose-test-release", "scale"])
def test_whatever_stands_in_a_manifest_is_refused_in_one_sentence_or_read(
    tmp_path: Path, saved: Callable[[str], Path], name: str
) -> None:
    """Each place of it becomes something else, one at a time: nothing but a refusal comes out."""
    junk = (None, -1, 0, 2**80, 1e308, float("nan"), "", "1/0", "9" * 40, [], {}, True)
    contents = files.read(saved(name))
    text = json.dumps({**contents.manifest, "schema": {}})

    def places(here: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        inner = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        return [path, *(found for key, value in inner for found in places(value, (*path, key)))]

    read = refused = 0
    for keys in places(json.loads(text))[1:]:
        for value in junk:
            manifest = json.loads(text) | {"schema": contents.manifest["schema"]}
            set_to(*keys, value=value)(manifest)
            files.write(tmp_path / "changed", manifest, None, {})
            try:
                report_of(cs.load_value(tmp_path / "changed"))
                read += 1
            except files.BadSynopsisFile:
                refused += 1
    assert refused > 2 * read > 0


def test_damaged_bytes_are_refused(tmp_path: Path, saved: Callable[[str], Path]) -> None:
    whole = saved("median").read_bytes()
    for at in range(0, len(whole), 7):
        (tmp_path / "damaged").write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            again = cs.load_value(tmp_path / "damaged")
        except files.BadSynopsisFile:
            continue
        assert again.values == cs.load_value(saved("median")).values  # a byte that means nothing, such as a date
    for at in (0, 5, len(whole) // 2, len(whole) - 1):
        (tmp_path / "damaged").write_bytes(whole[:at])
        with pytest.raises(files.BadSynopsisFile):
            cs.load_value(tmp_path / "damaged")


def test_each_kind_of_file_names_its_reader(tmp_path: Path, saved: Callable[[str], Path]) -> None:
    with pytest.raises(HoldsValues, match=r"cs\.load_value"):
        cs.load(saved("median"))
    cs.release(TABLE, cs.marginals(SCHEMA, 1), epsilon=1.0).save(tmp_path / "many")
    with pytest.raises(files.BadSynopsisFile, match=r"cs\.load$"):
        cs.load_value(tmp_path / "many")


def test_a_file_holds_no_code_and_no_objects(tmp_path: Path, saved: Callable[[str], Path]) -> None:
    loaded = cs.load_value(saved("laplace"))
    with pytest.raises(LookupError, match="not in their file"):
        loaded.plan.wanted.subsampling.function(np.zeros((1, 3)))
    odd = cs.aggregated(SCHEMA, lambda codes: (1, 2), blocks=3, values=[(1, 2), (3, 4)], trial=False)
    with pytest.raises(AggregateError, match="texts nor numbers"):
        cs.release_value(TABLE, odd, epsilon=1.0).save(tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


@pytest.mark.parametrize("name", CASES)
def test_the_report_says_what_the_file_says(saved: Callable[[str], Path], name: str) -> None:
    release = cs.load_value(saved(name))
    text = report_of(release, source=saved(name))
    for one in release.values:
        assert one.name in text
        shown = (
            "nothing" if one.value is None else f"{one.value:.6g}" if isinstance(one.value, float) else str(one.value)
        )
        assert shown.replace("<", "&lt;").replace(">", "&gt;") in text
    assert "<y>" not in text
    assert "What touched the data" in text
    assert ("under several theorems" in text) == release.declared
    if isinstance(CASES[name][0], type(MEAN)):
        assert "6 subsamples" in text
        assert "outside the guarantee" in text


def test_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(pa.table({"age": [3] * 50 + [9] * 20, "pay": [1] * 70, "sort": ["z"] * 70}), "people.csv")
    Path("people.toml").write_text(
        'name = "people"\n[columns.age]\ntype = "integer"\nmin = 0\nmax = 40\n'
        '[columns.sort]\ntype = "categorical"\nvalues = ["x", "z"]\n'
    )
    assert run(("ledger", "init", "l.ledger", "--schema", "people.toml", "--epsilon", "10")) == 0
    assert run(("ledger", "study", "l.ledger", "flu", "--purpose", "who is ill")) == 0
    asked = (
        "value",
        "people.csv",
        "--schema",
        "people.toml",
        "--median",
        "age",
        "--epsilon",
        "5",
        "--ledger",
        "l.ledger",
    )
    assert run(asked) == 2  # a ledger with studies wants one
    assert run((*asked, "--study", "flu", "--by", "ann", "-o", "age.conspectus")) == 0
    said = capsys.readouterr().out
    assert "Saved to age.conspectus." in said
    shown = cs.load_value("age.conspectus")
    assert f"The median of {shown.values[0]}" in said
    [line] = cs.Ledger.open("l.ledger").to_arrow().to_pylist()
    assert (line["study"], line["by"]) == ("flu", "ann")
    assert run(("report", "age.conspectus", "-o", "age.html", "--ledger", "l.ledger")) == 0
    assert "the median of age" in Path("age.html").read_text()
    capsys.readouterr()
    assert run(("ask", "age.conspectus", "age > 3")) == 2
    assert "single values" in capsys.readouterr().err
    spent = cs.Ledger.open("l.ledger").spent
    for wrong in ("age.csv", "people.csv", "no/where.conspectus"):
        assert run((*asked, "--study", "flu", "-o", wrong)) == 2
    assert cs.Ledger.open("l.ledger").spent == spent
