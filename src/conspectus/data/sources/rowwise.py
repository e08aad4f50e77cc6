"""Whether a SELECT maps each row by itself, and the SELECT that does so without stopping at any value.

A source with a join, a limit, a distinct or an aggregate lets one person change the rows of others, and then no noise
scale is right; and one that fails on a value tells that somebody has it. DuckDB's own parser reads the query. Only what
is known to be harmless passes: one table or file, listed expressions over the columns of one row, filters. Everything
else is refused. What runs is the tree that was examined: views and WITHs are written out in it, casts become tries,
each expression that fails on a row is NULL there, and the order of rows, which means nothing, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from .origin import SourceError, quoted, text
from .sql_functions import CLASSES, FUNCTIONS, OPERATORS, attempted, check_cast, check_function, refuse, tried_cast
from .sql_growth import Columns, Growth

Run = Callable[[str], list[tuple[Any, ...]]]

_PLACES = frozenset({"rowid", "file_row_number", "file_index"})  # say where a row stands among the others
_CLOCKS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_PARQUET = ("read_parquet", "parquet_scan")
_CSV = ("read_csv", "read_csv_auto")
_CSV_OPTIONS = frozenset(
    ["delim", "sep", "quote", "escape", "new_line", "auto_detect", "columns", "types", "dtypes", "all_varchar"]
    + ["sample_size"]
)
_SWITCHES = frozenset({"binary_as_string", "file_row_number", "filename", "hive_partitioning", "union_by_name"})
_PLAIN_OPTIONS = (("header", "true"), ("skip", "0"), ("comment", ""))
_GENERATED = "GENERATED ALWAYS AS"
_MOST_NESTED = 200
_LONGEST_QUERY = 1 << 18
FILES = (".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".tsv.gz")


@dataclass
class Verdict:
    """What a row-wise query reads: a table of its connection (as SQL), or a file; and whether it leaves rows out.

    `node` is the one reference to it in `tree`, and `levels` are its SELECTs, each inside the one before. `whole` says
    that the query counts on all columns being there.
    """

    filtered: bool = False
    file: str | None = None
    table: str | None = None
    csv: bool = False
    whole: bool = False
    node: dict[str, Any] = field(default_factory=dict)
    tree: dict[str, Any] = field(default_factory=dict)
    levels: list[dict[str, Any]] = field(default_factory=list)

    def read_instead(self, name: str) -> None:
        """Let the query read another table, under the name that it had."""
        known = self.node.get("table_name") if self.file is None else PurePath(self.file).name.partition(".")[0]
        alias = self.node.get("alias") or known
        columns = self.node.get("column_name_alias", [])
        self.node.clear()
        self.node.update(
            type="BASE_TABLE",
            alias=alias,
            sample=None,
            schema_name="",
            table_name=name,
            column_name_alias=columns,
            catalog_name="",
            at_clause=None,
            qualified_name={"path": [name]},
        )


def examine(query: str, run: Run, *, empty: bool = False) -> Verdict:
    """Check a query against the catalogue that `run` asks, or refuse it; `empty` says that nothing was put there."""
    if len(query) > _LONGEST_QUERY:
        raise SourceError(f"the SQL source is longer than {_LONGEST_QUERY:,} characters: write a shorter SELECT")
    try:
        tree = json.loads(run(f"SELECT json_serialize_sql({text(query)})")[0][0])
        if tree.get("error") or len(tree.get("statements", ())) != 1:
            raise SourceError("the SQL source is not one SELECT that can be understood: write a single plain SELECT")
        verdict = Verdict(tree=tree)
        _Examiner(run, verdict, empty=empty).select(tree["statements"][0]["node"], {})
    except RecursionError:
        raise refuse("expressions that are nested too deeply") from None
    return verdict


@dataclass
class _Named:
    """A query that a WITH names, and what it may refer to."""

    body: dict[str, Any]
    scope: dict[str, _Named]
    columns: list[str]
    seen: bool = False


class _Examiner:
    def __init__(self, run: Run, verdict: Verdict, *, empty: bool) -> None:
        self._run = run
        self._empty = empty
        self._verdict = verdict
        self._depth = 0
        self._growth = Growth()
        # A name that the owner has given another meaning would be read here by the first one: it is not known.
        rows = self._found("SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE NOT internal")
        self._functions = FUNCTIONS - {name for (name,) in rows}

    def _found(self, question: str) -> list[tuple[Any, ...]]:
        """What somebody has put into the catalogue."""
        return [] if self._empty else self._run(question)

    def select(self, node: dict[str, Any], scope: dict[str, _Named]) -> Columns:
        """Examine a SELECT and what it reads; return a bound of the columns that it gives."""
        self._depth += 1
        if node.get("type") != "SELECT_NODE" or self._depth > 50:
            raise refuse("a set operation or a query of an unknown kind")
        for modifier in node["modifiers"]:
            if modifier["type"] != "ORDER_MODIFIER":
                raise refuse(f"a {modifier['type'].partition('_')[0]}")
            self._expression(modifier, 0)
        self._verdict.levels.append(node)
        node["modifiers"] = []
        if node["group_expressions"] or node["group_sets"] or node["aggregate_handling"] != "STANDARD_HANDLING":
            raise refuse("a GROUP BY")
        for key in ("having", "sample", "qualify"):
            if node.get(key) is not None:
                raise refuse(f"a {key.upper()}")
        scope, own = dict(scope), []
        for entry in node["cte_map"]["map"]:
            body = entry["value"].get("query_node") or entry["value"]["query"]["node"]
            named = _Named(body, dict(scope), entry["value"].get("aliases") or [])
            scope[entry["key"].casefold()] = named
            own.append(named)
        node["cte_map"]["map"] = []
        node["select_list"] = [self._item(item) for item in node["select_list"]]
        if node["where_clause"] is not None:
            self._verdict.filtered = True
            self._expression(node["where_clause"], 0)
            # What is no truth would be read as one by a cast outside the TRY, which fails on a value.
            node["where_clause"] = attempted(tried_cast(node["where_clause"], "BOOLEAN"))
        inside = self._table(node["from_table"], scope)
        # What nothing reads is not examined, and what is not examined shall not run.
        if not all(named.seen for named in own):
            raise refuse("a WITH that it does not read")
        return self._growth.select(node["select_list"], node["where_clause"], inside)

    def _item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["class"] == "STAR":
            if item.get("columns") or item.get("expr"):
                raise refuse("a COLUMNS expression")
            self._expression(item.get("replace_list"), 0)
            for replaced in item.get("replace_list", ()):
                replaced["value"] = self._tried(replaced["value"])
            return item
        self._expression(item, 0)
        return self._tried(item)

    def _tried(self, item: dict[str, Any]) -> dict[str, Any]:
        return item if item["class"] in ("COLUMN_REF", "CONSTANT") else attempted(item)

    def _expression(self, part: Any, depth: int) -> None:
        """Refuse any expression that may look beyond one row, or fail in a way that TRY does not catch."""
        if isinstance(part, list):
            for item in part:
                self._expression(item, depth)
        if not isinstance(part, dict):
            return
        kind = part.get("class")
        if depth > _MOST_NESTED:
            raise refuse("expressions that are nested too deeply")
        if kind is not None and (kind not in CLASSES or (kind == "OPERATOR" and part["type"] not in OPERATORS)):
            raise refuse(f"a {str(part['type']).replace('_', ' ').casefold()} expression")
        if kind is None and str(part.get("type", "")).endswith("_NODE"):
            raise refuse("a subquery")
        if kind == "STAR":
            raise refuse("a star within an expression")
        if kind == "FUNCTION":
            check_function(part, self._functions)
        if kind == "CAST":
            check_cast(part)
        if kind == "COLUMN_REF" and part["column_names"][-1].casefold() in _PLACES:
            raise refuse(f"the place of a row ({part['column_names'][-1]})")
        if kind == "COLUMN_REF" and part["column_names"][-1].casefold() in _CLOCKS:
            raise refuse(f"the present moment ({part['column_names'][-1]})")  # another one at every pass
        for key, value in part.items():
            if key != "type_expr":
                self._expression(value, depth + (kind is not None))

    def _table(self, node: dict[str, Any], scope: dict[str, _Named]) -> Columns:
        """Examine what a SELECT reads; return a bound of its columns."""
        if node.get("sample") is not None or node.get("at_clause") is not None:
            raise refuse("a sample")
        kind, renamed = node["type"], bool(node.get("column_name_alias"))
        self._verdict.whole |= renamed
        if kind == "SUBQUERY":
            found = self.select(node["subquery"]["node"], scope)
        elif kind == "BASE_TABLE":
            found = self._named(node, scope)
        elif kind == "TABLE_FUNCTION":
            found = self._reader(node)
        else:
            raise refuse("a FROM that is no table" if kind != "JOIN" else "a join")
        return found.renamed() if renamed else found

    def _named(self, node: dict[str, Any], scope: dict[str, _Named]) -> Columns:
        name, schema, catalog = node["table_name"], node["schema_name"], node["catalog_name"]
        if not schema and not catalog and name.casefold() in scope:
            named = scope[name.casefold()]
            named.seen = True
            return self._written_out(node, name, {"node": deepcopy(named.body), "named_param_map": []}, named)
        place = "".join(
            f" AND lower({key}) = {text(value.casefold())}"
            for key, value in (("schema_name", schema), ("database_name", catalog))
            if value
        )
        asked = f"lower({{}}) = {text(name.casefold())}{place}"
        # The names within a view mean what they mean where it stands: only here do they mean the same.
        views = self._found(
            "SELECT view_name, sql, schema_name = current_schema() AND database_name IN (current_database(), 'temp') "
            f"FROM duckdb_views() WHERE {asked.format('view_name')}"
        )
        if views:
            if len(views) > 1 or not views[0][2]:
                raise refuse("a view of another schema")
            return self._view(node, *views[0][:2])
        if tables := self._found(
            "SELECT t.sql, d.type FROM duckdb_tables() AS t JOIN duckdb_databases() AS d USING (database_name) "
            f"WHERE {asked.format('table_name').replace('lower(', 'lower(t.')}"
        ):
            if any(_GENERATED in str(sql).upper() for sql, _ in tables):
                raise refuse("a table with generated columns, which may fail on a row")
            if any(kind != "duckdb" for _, kind in tables):
                raise refuse("a table of another database, whose values may not be what its columns declare")
            self._verdict.table = ".".join(quoted(part) for part in (catalog, schema, name) if part)
            self._verdict.node = node
            return Columns()
        if not schema and not catalog and name.casefold().endswith(FILES):
            self._verdict.file, self._verdict.node = name, node
            self._verdict.csv = not name.casefold().endswith(FILES[:2])
            return Columns()
        raise SourceError(
            "the SQL source reads something that is neither a table nor a file: pass a frame to open_table by itself"
        )

    def _view(self, node: dict[str, Any], name: str, created: str) -> Columns:
        """Write out the SELECT behind a view, where its text is plain enough to take apart."""
        statement = None
        for spelling in (name, quoted(name)):
            for start in ("CREATE VIEW ", "CREATE TEMP VIEW ", "CREATE TEMPORARY VIEW "):
                if created.startswith(f"{start}{spelling} AS "):
                    body = created.removeprefix(f"{start}{spelling} AS ").rstrip(";\n ")
                    tree = json.loads(self._run(f"SELECT json_serialize_sql({text(body)})")[0][0])
                    if not tree.get("error") and len(tree["statements"]) == 1:
                        statement = tree["statements"][0]
        if statement is None:
            raise refuse("a view that cannot be understood")
        return self._written_out(node, name, statement, _Named({}, {}, []))

    def _written_out(self, node: dict[str, Any], name: str, statement: dict[str, Any], named: _Named) -> Columns:
        """Put a SELECT in the place of its name."""
        found = self.select(statement["node"], named.scope)
        known, columns = node.get("alias") or name, node.get("column_name_alias") or []
        if columns and named.columns:
            raise refuse("columns that are renamed twice")
        self._verdict.whole |= bool(named.columns)
        columns = columns or named.columns
        node.clear()
        node.update(type="SUBQUERY", alias=known, sample=None, subquery=statement, column_name_alias=columns)
        return found.renamed() if columns else found

    def _reader(self, node: dict[str, Any]) -> Columns:
        function = node["function"]
        name = function["function_name"].casefold()
        arguments = [_argument(argument) for argument in function.get("arguments", function.get("children", ()))]
        files = [value for option, value in arguments if option == ""]
        if name not in (*_PARQUET, *_CSV) or len(files) != 1 or not isinstance(files[0], str):
            raise refuse(f"a table function ({name}) that is no plain reading of one file")
        for option, value in arguments[1:]:
            plain = name in _CSV and (option in _CSV_OPTIONS or (option, value) in _PLAIN_OPTIONS)
            if not plain and (value != "false" or option not in _SWITCHES):
                raise refuse(f"the option {option}")
        self._verdict.file, self._verdict.node, self._verdict.csv = files[0], node, name in _CSV
        return Columns()


def _argument(argument: dict[str, Any]) -> tuple[str, str | None]:
    """The name and the constant of an argument: `name = constant`, `name := constant` or a constant alone."""
    name, part = argument.get("name", ""), argument.get("expression", argument)
    if part.get("type") == "COMPARE_EQUAL":
        name, part = part["left"]["column_names"][-1], part["right"]
    if part.get("class") == "FUNCTION" and part["function_name"] == "list_value":
        items = part.get("arguments", part.get("children", ()))
        if len(items) == 1:  # a list of one file
            return name.casefold(), _argument(items[0])[1]
    literal = part.get("literal") or part.get("value")
    if part.get("class") != "CONSTANT" or not isinstance(literal, dict):
        return name.casefold(), None
    constant = literal.get("text", literal.get("value"))
    return name.casefold(), None if constant is None else str(constant)
