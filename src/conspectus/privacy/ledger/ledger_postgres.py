"""A ledger in a PostgreSQL database, which many hosts share: the same lines, the same promise as the file.

Two hosts that read what is left at the same moment would both spend it. So a transaction that writes takes a lock on
the table of lines before it reads anything, and holds it until its commit: whoever comes second reads what the first
one wrote. A client that forgets the lock waits for it all the same when it adds a line, and its line is refused unless
it is numbered right behind the last one.

A commit that the server forgets would give a budget back that was spent. So each transaction refuses a server that may
lose one: without fsync or full pages, a standby, or one that is copied to standbys which need not confirm.

The role that clients use needs to add and to read lines, and no more; `conspectus ledger init --role` grants it that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from conspectus.server_address import AddressError, shown, without

from .ledger_store import LedgerStore, Lines, Statements, damaged, read_terms, written_terms
from .ledger_terms import LedgerError, LedgerTerms

_PATIENCE = 120  # seconds to wait for other hosts
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}")
_ROLE = re.compile(r"[^\x00]{1,63}")
_STAYS = "BEGIN RAISE EXCEPTION 'a ledger is append-only'; END"
_FOLLOWS = """BEGIN
    IF NEW.id <> (SELECT coalesce(pg_catalog.max(id), 0) + 1 FROM {schema}.entries) THEN
        RAISE EXCEPTION 'the lines of a ledger follow one another';
    END IF;
    RETURN NEW;
END"""
_LOCK = "BEGIN LOCK TABLE {schema}.entries IN EXCLUSIVE MODE; END"

_STATEMENTS = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.terms (
    id integer PRIMARY KEY CHECK (id = 1),
    currency text NOT NULL, cap text NOT NULL, delta_cap text NOT NULL, budget text NOT NULL, neighbours text NOT NULL,
    unit text NOT NULL, fingerprint text NOT NULL, subject text NOT NULL, made text NOT NULL
);
CREATE TABLE {schema}.entries (
    id bigint PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('reserve', 'debit', 'settle')),
    reservation bigint, price text NOT NULL, total text NOT NULL, delta text NOT NULL, delta_total text NOT NULL,
    content text NOT NULL, made text NOT NULL
);
CREATE INDEX by_reservation ON {schema}.entries (reservation, id);
CREATE FUNCTION {schema}.stays() RETURNS trigger LANGUAGE plpgsql AS {stays};
CREATE FUNCTION {schema}.follows() RETURNS trigger LANGUAGE plpgsql AS {follows};
CREATE FUNCTION {schema}.lock() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS {lock};
CREATE TRIGGER terms_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.terms EXECUTE FUNCTION {schema}.stays();
CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.entries EXECUTE FUNCTION {schema}.stays();
CREATE TRIGGER entries_follow BEFORE INSERT ON {schema}.entries FOR EACH ROW EXECUTE FUNCTION {schema}.follows();
REVOKE ALL ON FUNCTION {schema}.lock() FROM PUBLIC;
"""
_GRANTS = """
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON {schema}.terms TO {role};
GRANT SELECT, INSERT ON {schema}.entries TO {role};
GRANT EXECUTE ON FUNCTION {schema}.lock() TO {role};
"""

# All that could change what is read from the tables or written to them: whether they are plain tables that survive a
# crash, and their triggers and functions. It is compared with what _STATEMENTS make.
_FORM = """
SELECT 'table', c.relname, c.relkind::text || c.relpersistence::text || c.relrowsecurity::text || c.relhasrules::text
    || c.relhassubclass::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relkind <> 'i'
UNION ALL
SELECT 'trigger', t.tgname, t.tgenabled::text || t.tgtype::text || p.proname || (t.tgqual IS NULL)::text
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE n.nspname = ? AND NOT t.tgisinternal AND p.pronamespace = n.oid
UNION ALL
SELECT 'trigger', t.tgname, 'of somebody else'
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE n.nspname = ? AND NOT t.tgisinternal AND p.pronamespace <> n.oid
UNION ALL
SELECT 'function', p.proname, p.prosrc
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = ?
"""
_PLACE = """
SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()), d.oid, c.oid
FROM pg_catalog.pg_database d, pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE d.datname = pg_catalog.current_database() AND n.nspname = ? AND c.relname = 'entries'
"""


class LedgerDatabase(LedgerStore):
    """One ledger of a PostgreSQL database: a schema of its own, named by the option `ledger` of the address.

    Guarantee: what `LedgerStore` promises, for clients on any number of hosts, as long as the server keeps what it
    committed and nobody with the rights of the schema's owner changes it.
    """

    path: str

    def __init__(self, address: str) -> None:
        """An existing ledger, after a look at whether it is one."""
        super().__init__()
        self._address, self._schema, self.path = _place(address)
        with self._transaction(write=False) as connection:
            if connection.execute("SELECT pg_catalog.to_regclass(?)", (f"{self._schema}.terms",)).fetchone()[0] is None:
                raise LedgerError(
                    f"there is no ledger at {self.path}: make one with conspectus ledger init, or name the right one "
                    "with ?ledger=NAME at the end of the address"
                )
            if sorted(map(tuple, connection.execute(_FORM, (self._schema,) * 4))) != sorted(_form(self._schema)):
                raise damaged(self.path)
            self._pinned = self._place(connection)
            lines = Lines(self.path, connection)
            self._bound = lines.bound()
            self.terms = read_terms(self.path, lines.terms())

    @classmethod
    def create(cls, address: str, terms: LedgerTerms, *, role: str | None = None) -> LedgerDatabase:
        """A new ledger, never over an existing one; `role` may then use it."""
        plain, schema, path = _place(address)
        if role is not None and not _ROLE.fullmatch(role):
            raise LedgerError("a role is the name of one that the server knows")
        with _connected(plain, path) as connection:
            found = connection.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (schema,))
            if found.fetchone() is not None:
                raise LedgerError(f"{path} already exists: open it, or choose another name with ?ledger=NAME")
            bodies = {"stays": f"$${_STAYS}$$", "follows": f"$${_FOLLOWS}$$", "lock": f"$${_LOCK}$$"}
            parts = {name: body.format(schema=schema) for name, body in bodies.items()}
            script = _STATEMENTS.format(schema=schema, **parts)
            if role is not None:
                script += _GRANTS.format(schema=schema, role='"' + role.replace('"', '""') + '"')
            connection.execute(script)
            places = ", ".join(["%s"] * 9)
            connection.execute(f"INSERT INTO {schema}.terms VALUES (1, {places})", written_terms(terms))
        return cls(address)

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[_Postgres]:
        with _connected(self._address, self.path, write=write) as connection:
            statements = _Postgres(connection)
            _check_durable(statements, self.path)
            if write:
                connection.execute(f"SELECT {self._schema}.lock()")
            # Tables of a temporary schema would come first, unless it is named last.
            connection.execute(f"SET LOCAL search_path = pg_catalog, {self._schema}, pg_temp")
            yield statements

    def _place(self, connection: Statements) -> tuple[Any, ...] | None:
        found = connection.execute(_PLACE, (self._schema,)).fetchone()
        return None if found is None else tuple(found)


class _Postgres:
    """One transaction of PostgreSQL."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        return self._connection.execute(query.replace("?", "%s"), values or None)

    def insert(self, columns: Mapping[str, Any]) -> int:
        names, places = ", ".join(columns), ", ".join(["%s"] * len(columns))
        following = "(SELECT coalesce(max(id), 0) + 1 FROM entries)"
        insert = f"INSERT INTO entries (id, {names}) VALUES ({following}, {places}) RETURNING id"
        return int(self._connection.execute(insert, tuple(columns.values())).fetchone()[0])


class _Row(tuple[Any, ...]):
    """A row whose values have names, too."""

    names: tuple[str, ...]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self.names.index(key) if isinstance(key, str) else key)


def _rows(cursor: Any) -> Any:
    class Row(_Row):
        names = tuple(column.name for column in cursor.description or ())

    return Row


@contextmanager
def _connected(address: str, path: str, *, write: bool = True) -> Iterator[Any]:
    """A connection inside a transaction that commits at its end, unless something was raised.

    A commit whose reply is lost raises: whoever asked does not draw, and what was written counts as spent.
    """
    psycopg = _library()
    begin = "ISOLATION LEVEL READ COMMITTED READ WRITE" if write else "ISOLATION LEVEL REPEATABLE READ READ ONLY"
    try:
        with psycopg.connect(address, autocommit=True, row_factory=_rows, connect_timeout=30) as connection:
            connection.execute(f"BEGIN {begin}")
            connection.execute(
                f"SET LOCAL lock_timeout = '{_PATIENCE}s'; SET LOCAL statement_timeout = 0; "
                "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL synchronous_commit = on"
            )
            yield connection
            connection.execute("COMMIT")
    except psycopg.Error as error:
        # The words of the library may quote the address, and with it the password; those of the server do not.
        said = error.diag.message_primary if error.sqlstate else None
        reason = said or "the server did not answer; check the address, and that it runs"
        raise LedgerError(f"{path} cannot be used as a ledger: {reason}") from None


def _check_durable(connection: Statements, path: str) -> None:
    """Refuse a server that may forget what it has committed."""
    asked = "current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery()"
    copied = "current_setting('synchronous_standby_names') = '' AND EXISTS (SELECT 1 FROM pg_stat_replication)"
    synced, full, standby, alone = connection.execute(f"SELECT {asked}, {copied}").fetchone()
    problem = None
    if synced != "on" or full != "on":
        problem = "its server runs without fsync or full_page_writes: a crash would forget what was spent"
    elif standby:
        problem = "its server is a standby: use the primary server"
    elif alone:
        problem = (
            "its server is copied to standbys that need not confirm, and one that takes over would forget what was "
            "spent: set synchronous_standby_names"
        )
    if problem is not None:
        raise LedgerError(f"{path} cannot be used as a ledger: {problem}")


def _form(schema: str) -> list[tuple[str, str, str]]:
    """What _FORM finds of a ledger as it was made."""
    triggers = {"terms_stay": "O58stays", "entries_stay": "O58stays", "entries_follow": "O7follows"}
    bodies = {"stays": _STAYS, "follows": _FOLLOWS, "lock": _LOCK}
    return [
        *(("table", name, "rpfalsefalsefalse") for name in ("terms", "entries")),
        *(("trigger", name, f"{form}true") for name, form in triggers.items()),
        *(("function", name, body.format(schema=schema)) for name, body in bodies.items()),
    ]


def _place(address: str) -> tuple[str, str, str]:
    """The address for the server's library, the schema of the ledger, and the address to be shown."""
    try:
        plain, name = without(address, "ledger", "conspectus")
        path = shown(address)
    except AddressError as error:
        raise LedgerError(str(error)) from None
    if not _NAME.fullmatch(name):
        raise LedgerError(f'the name of a ledger is written in small letters, digits and _, not as "{name}"')
    return plain, name, path


def _library() -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            'a ledger in PostgreSQL needs more packages: install them with pip install "conspectus[postgres]"'
        ) from None
    return psycopg
