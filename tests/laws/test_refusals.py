"""Every refusal is a function of public inputs: on two neighbouring tables it has the same words, code and ledger.

Each place that raises where rows can be seen has a case here or in `tests/servers`, or a reason why rows take no part
in it.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice
from pathlib import Path

import pytest
from tests.refusals import CASES, COMMANDS, SETTINGS, SOURCES, Case, Side, neighbours
from tests.servers.server_refusals import SITES

import conspectus
from conspectus.cli import run
from conspectus.cli.exit_codes import BUG, DONE, explain
from conspectus.data.sources import SourceError

HOUSE = Path(conspectus.__file__).parent
SEEING = ("curator", "counting", "data", "privacy/noise.py", "privacy/exponential.py", "privacy/levels.py")
"""Where rows, true counts or scores of them can be at hand."""

PUBLIC = {
    "it reads a declaration, before there is a table": [
        "data/schema.py:*",
        "data/domain.py:Domain.__post_init__",
        "data/code_sets.py:*",
        "data/columns/kinds.py:*",
        "data/columns/column.py:Column._check",
        "data/columns/dates.py:Date.__post_init__",
        "data/columns/discrete.py:Categorical.__post_init__",
        "data/columns/discrete.py:Boolean._check_spellings",
        "data/columns/ordered.py:Integer.between",
        "data/columns/ordered.py:Ordered._check",
        "data/columns/ordered.py:Integer.__post_init__",
        "data/columns/ordered.py:Number.__post_init__",
        "data/records/record.py:*",
    ],
    "it reads a question, and the codes that the schema has": [
        "data/columns/column.py:Column.codes_where",
        "data/columns/column.py:Column.label",
        "data/columns/column.py:Column.decode",
        "data/columns/discrete.py:Categorical._codes_where",
        "data/columns/discrete.py:Boolean._codes_where",
        "data/columns/ordered.py:Ordered.bounds",
        "data/columns/ordered.py:Ordered._codes_where",
        "curator/held_table.py:RowsInMemory.count",
        "counting/single_query.py:SingleQueryCounts.of",
        "counting/block_counters.py:block_counter",
        "counting/evaluation.py:*",
        "counting/marginal_tree.py:MarginalTree.__init__",
    ],
    "it reads the form of a SELECT, and names and types of columns": [
        "data/sources/rowwise.py:*",
        "data/sources/sql_functions.py:*",
        "data/sources/sql_growth.py:*",
        "data/sources/sql_types.py:*",
        "data/sources/__init__.py:_check_seed",
        "data/sources/sql.py:_one_table",
        "data/sources/sql.py:open_over",
    ],
    "it reads what was asked of a door: sizes, prices, guesses, all of them public": [
        "curator/acts.py:*",
        "curator/scores.py:*",
        "curator/stable_statistics.py:*",
        "curator/nets.py:*",
        "curator/laminar.py:*",
        "curator/watch.py:*",
        "curator/curator.py:*",
        "privacy/noise.py:*",
        "privacy/exponential.py:*",
        "privacy/levels.py:*",
    ],
    "it is about the shape of a chunk, which the engine makes the same for every table": [
        "counting/set_counting.py:SetCounts.__init__",
        "counting/tally.py:Tally.add",
        "data/chunks.py:*",
        "data/domain.py:Chunk.column",
        "data/domain.py:fitting",
        "data/fold.py:*",
    ],
    "it reads the catalogue of a database, or the names and types that the files of one table have": [
        "data/sources/parquet.py:read_footer",
        "data/sources/postgres/pages.py:Pages._find",
        "data/sources/postgres/snapshot.py:_library",
    ],
    "it says that the machine lost a file": ["data/spool.py:Spool._get"],
    "it reads the plan of a frame, and the types that its table declares": [
        "data/sources/spark/scan.py:_check_key",
    ],
    "it reads who is protected in a frame that lies in a cluster": [
        "data/sources/spark/spark_table.py:SparkTable.recoded"
    ],
    "it says that a job failed, in one sentence": ["data/sources/spark/job.py:collected"],
    "it says that a store or a catalogue did not answer, in one sentence": [
        "data/sources/spark/frame_files.py:_below",
        "data/sources/spark/frame_files.py:_catalogued",
    ],
    "it never leaves: a partition that cannot be read is a line, and one sentence for all": [
        "data/sources/spark/partitions.py:folded_people.chunks",
        "data/sources/spark/partitions.py:handed",
    ],
    "it passes on what was raised below": [
        "data/sources/postgres/pages.py:Pages.batches",
        "data/sources/postgres/pages.py:_waited",
    ],
    "it turns whatever a server says into one sentence, which is always the same": [
        "data/sources/postgres/snapshot.py:Database.stream",
        "data/sources/postgres/copying.py:*",
    ],
    "it says that somebody closed the table": ["data/sources/origin.py:Connection._open"],
    "it never leaves: `guarded` turns it into one sentence without a value": [
        "data/sources/delimited.py:Delimited.reader.batches",
        "data/sources/parquet.py:Parquet._batches",
        "data/sources/record_tables.py:_from_file.batches",
        "data/records/record_encoding.py:_python",
    ],
    "it never leaves: a value beyond all bounds takes the code of such values": [
        "data/records/forms.py:*",
        "data/columns/arrays.py:*",
        "data/columns/values.py:*",
    ],
    "it reads bytes that were released": ["data/records/canonical_form.py:*"],
    "it is for the owner, who is told NOT PRIVATE": [
        "data/sources/__init__.py:open_unknown",
        "data/sources/__init__.py:open_pairs",
        "data/sources/delimited.py:Delimited.tally",
        "data/sources/pairs.py:PairsTable.raw",
        "data/sources/record_tables.py:RecordTable.raw",
        "data/sources/drafting.py:*",
    ],
    "it stands where the file itself cannot be opened, or the names of its columns contradict each other": [
        "data/sources/delimited.py:_first_line",
        "data/sources/parquet.py:check_twins",
        "data/sources/record_tables.py:_from_csv",
    ],
    "it is a key that somebody pressed": ["data/sources/frames.py:_text"],
}
ELSEWHERE = {
    "read from files that were released, or typed, where no table is at hand": [
        *("BadSynopsis", "BadSynopsisFile", "BadState", "CannotAnswer", "CannotFit", "CannotRound", "CannotWriteFile"),
        *("CompositionError", "ForgottenFunction", "NotCanonical", "OptionError", "OutputError", "QuestionsNeeded"),
        *("SchemaError", "TooManyBoxes", "TooManyGoals", "ComparisonError", "NetError", "StaleCopy", "CannotPlot"),
        *("CannotQuery", "AttackError", "HypothesisError", "HoldsValues", "NestedTooDeeply", "Unreadable"),
    ],
    "it never leaves: the guard of a database turns it into one sentence": ["CopyError"],
    "told of a survey, before anybody's answer is looked at, or of reports, which are public": ["LocalError"],
    "told of a ledger by its lines, and of a series by its terms and the lines of its ledger, before a row is read": [
        *("LedgerRetired", "SeriesError"),
    ],
    "told by the service, of requests and folders; what a session refuses is passed on as it is": [
        *("AddressError", "AnalystError", "FolderError", "Refused", "ServiceError"),
    ],
    "told of what a function declares, on made rows and tables": ["AggregateError"],
    "raised by what mechanisms ask, which see noisy answers alone": [
        *(
            "CannotServe",
            "FoldError",
            "OracleError",
            "ScaleError",
            "SelectionError",
            "TotalIsPrivate",
            "Unpriced",
            "WatchOver",
        ),
    ],
}


@cache
def trees() -> list[tuple[str, ast.Module]]:
    paths = sorted(HOUSE.rglob("*.py"))
    return [(path.relative_to(HOUSE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def raising(node: ast.AST, within: str = "") -> Iterator[str]:
    """The functions that raise something, by their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from raising(child, f"{within}.{child.name}".removeprefix("."))
        else:
            if isinstance(child, ast.Raise):
                yield within
            yield from raising(child, within)


def test_every_place_that_raises_beside_rows_has_a_case_or_a_reason() -> None:
    reasons = {site for sites in PUBLIC.values() for site in sites}
    cases = {case.site for case in CASES if case.site} | SITES
    found = {
        f"{name}:{function}"
        for name, tree in trees()
        if name.startswith(tuple(f"{room}/" if "." not in room else room for room in SEEING))
        for function in raising(tree)
    }
    unknown = {site for site in found - cases - reasons if f"{site.partition(':')[0]}:*" not in reasons}
    assert unknown == set(), "write a case in tests/refusals.py, or say why rows take no part in it"
    assert cases - found == set()
    assert {site for site in reasons - found if not site.endswith(":*")} == set()


def test_every_error_of_ours_has_a_case_or_a_reason() -> None:
    bases = {"ValueError", "LookupError", "RuntimeError", "Exception", "KeyError", "TypeError", "OSError"}
    ours: set[str] = set()
    classes = [node for _, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while new := {
        node.name
        for node in classes
        if node.name not in ours and {ast.unparse(base).rpartition(".")[2] for base in node.bases} & (bases | ours)
    }:
        ours |= new
    told = {case.kind for case in CASES} | {name for names in ELSEWHERE.values() for name in names}
    assert {name for name in ours - told if not name.startswith("_")} == set()
    assert told - ours == set()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], tuple[Side, Side]]:
    """Two neighbouring tables for each relation, unit and source."""
    made = {}
    for relation, unit in SETTINGS:
        for kind in SOURCES:
            place = tmp_path_factory.mktemp(f"{relation}-{unit}-{kind}")
            here, there = neighbours(relation, unit)
            sides = Side(place / "here", here, relation, unit, kind), Side(place / "there", there, relation, unit, kind)
            for side in sides:
                side.make()
            made[relation, unit, kind] = sides
    return made


def refused(case: Case, side: Side, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int, str]:
    """What a case says on one side: the error, the code of a command that met it, and the sentence."""
    monkeypatch.chdir(side.place)
    before, files = side.ledger.read_bytes(), sorted(side.place.iterdir())
    with pytest.raises(Exception) as caught:
        case.act(side)
    error = caught.value
    assert type(error).__name__ == case.kind, error
    if case.site:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        found = f"{Path(frame.filename).relative_to(HOUSE).as_posix()}:{frame.name}"
        assert found == f"{case.site.partition(':')[0]}:{case.site.rpartition('.')[2].rpartition(':')[2]}"
    code, sentence = explain(error)
    assert code not in (DONE, BUG)
    assert side.ledger.read_bytes() == before
    assert [path for path in files if not path.exists()] == []
    sentence = sentence.partition(" is refuted: on a made table")[0]  # which is made anew, with public coins, each time
    return type(error).__name__, code, sentence.replace(str(side.place), "PLACE")


VARIANTS = [(relation, unit, kind) for kind in SOURCES for relation, unit in SETTINGS]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_a_refusal_is_the_same_on_neighbouring_tables(number: int, pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under both relations and for both units, on sources that take turns."""
    case = CASES[number]
    for variant in islice(cycle(VARIANTS), number, number + 4 * 5, 5):
        here, there = (refused(case, side, monkeypatch) for side in pairs[variant])
        assert here == there, variant


def test_a_refusal_that_counts_rows_would_be_found(pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    def telling(side: Side) -> None:
        raise SourceError(f"{len(side.rows)} rows are too few")

    twin = Case("telling", "SourceError", telling)
    here, there = (refused(twin, side, monkeypatch) for side in pairs["add-remove", "id", "csv"])
    assert here != there


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=lambda n: f"{COMMANDS[n][0]} {n}")
def test_a_refused_command_is_the_same_on_neighbouring_tables(number: int, pairs, monkeypatch, capfd) -> None:
    for relation, unit in SETTINGS:
        for kind, data in (("csv", "people.csv"), ("parquet", "people.parquet")):
            said = []
            for side in pairs[relation, unit, kind]:
                monkeypatch.chdir(side.place)
                before, files = side.ledger.read_bytes(), sorted(side.place.iterdir())
                code = run([data if word == "DATA" else word for word in COMMANDS[number]])
                out, err = capfd.readouterr()
                said.append((code, out, err.replace(str(side.place), "PLACE")))
                assert (side.ledger.read_bytes(), sorted(side.place.iterdir())) == (before, files)
            assert said[0] == said[1]
            assert said[0][0] in (2, 3, 4), said[0]
