"""Whether a SELECT maps each row by itself.

A source with a join, a limit, a distinct or an aggregate lets one person change the rows of others, and then no noise
scale is right. DuckDB's own parser reads the query, so what is checked is what will run. Only what is known to be
harmless passes: one table or file, expressions over the columns of one row, filters. Everything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conspectus.data.sources.origin import SourceError

Run = Callable[[str], list[tuple[Any, ...]]]

_EXPRESSIONS = frozenset(
    ["COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR", "CASE", "CAST", "BETWEEN"]
    + ["STAR", "COLLATE", "TYPE"]
)
_PLACES = frozenset({"rowid", "file_row_number", "file_index"})  # say where a row stands among the others
_MACROS = frozenset({"nullif", "ifnull"})
_REFUSED = frozenset({"stats", "getvariable"})  # scalar by name, but they look at more than one row
_PARQUET = ("read_parquet", "parquet_scan")
_CSV = ("read_csv", "read_csv_auto")
_PARQUET_OPTIONS = frozenset({"binary_as_string", "union_by_name", "hive_partitioning", "filename"})
_CSV_OPTIONS = frozenset(
    ["delim", "sep", "quote", "escape", "new_line", "auto_detect", "columns", "types", "dtypes", "all_varchar"]
    + ["sample_size"]
)
FILES = (".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".tsv.gz")


@dataclass
class Verdict:
    """What a row-wise query reads: a table of its connection, or a file; and whether it leaves rows out."""

    filtered: bool = False
    file: str | None = None
    node: dict[str, Any] = field(default_factory=dict)  # the reference to the file in `tree`, to be replaced for a CSV
    tree: dict[str, Any] = field(default_factory=dict)


def examine(query: str, run: Run) -> Verdict:
    """Check a query against the catalogue that `run` asks, or refuse it."""
    tree = json.loads(run("SELECT json_serialize_sql(" + _text(query) + ")")[0][0])
    if tree.get("error") or len(tree.get("statements", ())) != 1:
        raise SourceError("the SQL source is not one SELECT that can be understood: write a single plain SELECT")
    verdict = Verdict(tree=tree)
    _Examiner(run, verdict).select(tree["statements"][0]["node"], {})
    return verdict


class _Examiner:
    def __init__(self, run: Run, verdict: Verdict) -> None:
        self._run = run
        self._verdict = verdict
        self._depth = 0
        rows = run(
            "SELECT function_name FROM duckdb_functions() GROUP BY ALL HAVING bool_or(function_type = 'scalar') AND "
            "bool_and(function_type = 'table' OR (function_type = 'scalar' AND stability = 'CONSISTENT' AND internal))"
        )
        self._functions = {name.casefold() for (name,) in rows} - _REFUSED | _MACROS

    def select(self, node: Mapping[str, Any], scope: dict[str, Any]) -> None:
        self._depth += 1
        if node.get("type") != "SELECT_NODE" or self._depth > 50:
            raise _refuse("a set operation or a query of an unknown kind")
        for modifier in node["modifiers"]:
            if modifier["type"] != "ORDER_MODIFIER":
                raise _refuse(f"a {modifier['type'].partition('_')[0]}")
            self._expression(modifier)
        if node["group_expressions"] or node["group_sets"] or node["aggregate_handling"] != "STANDARD_HANDLING":
            raise _refuse("a GROUP BY")
        for key in ("having", "sample", "qualify"):
            if node.get(key) is not None:
                raise _refuse(f"a {key.upper()}")
        scope = dict(scope)
        for entry in node["cte_map"]["map"]:
            body = entry["value"].get("query_node") or entry["value"]["query"]["node"]
            scope[entry["key"].casefold()] = (body, dict(scope))
        self._expression(node["select_list"])
        if node["where_clause"] is not None:
            self._verdict.filtered = True
            self._expression(node["where_clause"])
        self._table(node["from_table"], scope)

    def _expression(self, part: Any) -> None:
        """Refuse any expression that may look beyond one row."""
        if isinstance(part, list):
            for item in part:
                self._expression(item)
        if not isinstance(part, dict):
            return
        kind = part.get("class")
        if kind is not None and kind not in _EXPRESSIONS:
            raise _refuse(f"a {kind.casefold()} expression")
        if kind is None and str(part.get("type", "")).endswith("_NODE"):
            raise _refuse("a subquery")
        if kind == "FUNCTION":
            name = part["function_name"].casefold()
            aggregate = part.get("filter") or part.get("distinct") or part.get("order_bys", {}).get("orders")
            if name not in self._functions or aggregate:
                raise _refuse(f"the function {name}")
        if kind == "CAST":
            part["try_cast"] = True  # one value that does not convert is missing and stops nobody
        if kind == "COLUMN_REF" and part["column_names"][-1].casefold() in _PLACES:
            raise _refuse(f"the place of a row ({part['column_names'][-1]})")
        for value in part.values():
            self._expression(value)

    def _table(self, node: dict[str, Any], scope: dict[str, Any]) -> None:
        if node.get("sample") is not None or node.get("at_clause") is not None:
            raise _refuse("a sample")
        kind = node["type"]
        if kind == "SUBQUERY":
            self.select(node["subquery"]["node"], scope)
        elif kind == "BASE_TABLE":
            self._named(node, scope)
        elif kind == "TABLE_FUNCTION":
            self._reader(node)
        else:
            raise _refuse("a FROM that is no table" if kind != "JOIN" else "a join")

    def _named(self, node: dict[str, Any], scope: dict[str, Any]) -> None:
        name, schema, catalog = node["table_name"], node["schema_name"], node["catalog_name"]
        if not schema and not catalog and name.casefold() in scope:
            body, outer = scope[name.casefold()]
            return self.select(body, outer)
        place = "".join(
            f" AND lower({key}) = {_text(value.casefold())}"
            for key, value in (("schema_name", schema), ("database_name", catalog))
            if value
        )
        asked = f"lower({{}}) = {_text(name.casefold())}{place}"
        views = self._run(f"SELECT view_name, sql FROM duckdb_views() WHERE {asked.format('view_name')}")
        if views:
            return self.select(self._view(*views[0]) if len(views) == 1 else {}, {})
        if self._run(f"SELECT 1 FROM duckdb_tables() WHERE {asked.format('table_name')}"):
            return None
        if not schema and not catalog and name.casefold().endswith(FILES):
            self._verdict.file, self._verdict.node = name, node
            return None
        raise SourceError(
            "the SQL source reads something that is neither a table nor a file: pass a frame to open_table by itself"
        )

    def _view(self, name: str, created: str) -> Mapping[str, Any]:
        """The SELECT behind a view, where its text is plain enough to take apart."""
        for spelling in (name, '"' + name.replace('"', '""') + '"'):
            for start in ("CREATE VIEW ", "CREATE TEMP VIEW ", "CREATE TEMPORARY VIEW "):
                if created.startswith(f"{start}{spelling} AS "):
                    body = created.removeprefix(f"{start}{spelling} AS ").rstrip(";\n ")
                    tree = json.loads(self._run(f"SELECT json_serialize_sql({_text(body)})")[0][0])
                    if not tree.get("error") and len(tree["statements"]) == 1:
                        node: Mapping[str, Any] = tree["statements"][0]["node"]
                        return node
        raise _refuse("a view that cannot be understood")

    def _reader(self, node: dict[str, Any]) -> None:
        function = node["function"]
        name = function["function_name"].casefold()
        arguments = [_argument(argument) for argument in function.get("arguments", function.get("children", ()))]
        files = [value for option, value in arguments if option == ""]
        if name not in (*_PARQUET, *_CSV) or len(files) != 1 or not isinstance(files[0], str):
            raise _refuse(f"a table function ({name}) that is no plain reading of one file")
        for option, value in arguments[1:]:
            plain = _PARQUET_OPTIONS if name in _PARQUET else _CSV_OPTIONS
            if option in plain or (option, value) in (("header", "true"), ("skip", "0"), ("comment", "")):
                continue
            if option == "file_row_number" and value == "false":
                continue
            raise _refuse(f"the option {option}")
        self._verdict.file = files[0]
        if name in _CSV:
            self._verdict.node = node


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


def _refuse(thing: str) -> SourceError:
    return SourceError(f"the SQL source has {thing}: leave it out, since a source must map each row by itself")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
