"""The file of a release: one zip of JSON and Arrow tables.

    manifest.json      format, version, the digest and length of every other member, and the release's own fields
    workload.json      the questions
    tables/NAME.arrow  answers and synopsis, as uncompressed Arrow IPC files

The zip's comment holds the digest of the manifest, so everything that is read is checked against a digest. The bytes
are a function of the contents: fixed times, sorted names. Reading executes nothing, and allocates no more than the
limits below whatever the file claims. The digests guard against damage; they are no signature.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from conspectus.queries.rules import demand

from .arrow_messages import read_file
from .synopsis import BadSynopsis

FORMAT = "conspectus"
VERSION = 1
MOST_BYTES = 1 << 32
"""The largest file that is read, unpacked."""

_MANIFEST, _WORKLOAD = "manifest.json", "workload.json"
_TABLE = re.compile(r"tables/([a-z0-9][a-z0-9_-]{0,63})\.arrow")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_COMMENT = b"conspectus manifest sha256 "
_MOST_MANIFEST = 1 << 28
_MOST_MEMBERS = 1000
# Members above the first size may not expand more than this: what a bomb does and a histogram need not.
_SMALL, _MOST_EXPANSION = 1 << 26, 200
_AGAIN = "get the file again from where it was published"


class BadSynopsisFile(BadSynopsis):
    """A file that is not a whole, undamaged Conspectus release of a version that can be read."""


class CannotWriteFile(ValueError):
    """A path at which no file can be written."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Contents:
    """What a file holds: the release's fields and the workload as JSON, the tables by name."""

    manifest: dict[str, Any]
    workload: Any
    tables: dict[str, pa.Table]


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before anything is spent."""
    folder = path.parent
    demand(
        CannotWriteFile,
        (folder.is_dir(), f"{folder} is not a folder: make it first, or write elsewhere"),
        (not path.is_dir(), f"{path} is a folder: name a file in it"),
        (os.access(folder, os.W_OK | os.X_OK), f"nothing can be written in {folder}: write elsewhere"),
    )


def write(path: Path, manifest: Mapping[str, Any], workload: Any, tables: Mapping[str, pa.Table]) -> None:
    """Write a release atomically: after a crash the path holds the old file or the new one, whole."""
    path = Path(path)
    check_writable(path)
    data = _packed(manifest, workload, tables)
    spare = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with open(os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(spare, path)
    except OSError as problem:
        with suppress(OSError):
            spare.unlink()
        raise CannotWriteFile(f"{path} could not be written ({problem.strerror}): write elsewhere") from problem
    with suppress(OSError):  # some file systems cannot sync a folder; the file itself is safe by now
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: Path) -> Contents:
    """Read a release and check everything about it; raises `BadSynopsisFile` with one sentence."""
    path = Path(path)
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):
            raise BadSynopsisFile(f"{path} is not a file: name the file of a release")
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                raise BadSynopsisFile(f"{path} is not a Conspectus release: name a file that a release wrote")
            with _telling(f"{path} is damaged or cut short", *_UNFIT, *_BROKEN), zipfile.ZipFile(file) as archive:
                return _unpacked(path, archive)
    except FileNotFoundError as problem:
        raise BadSynopsisFile(f"there is no file {path}: check its name") from problem
    except OSError as problem:
        raise BadSynopsisFile(f"{path} cannot be read ({problem.strerror}): check its permissions") from problem


_UNFIT = (ValueError, LookupError, TypeError, OverflowError, RecursionError, MemoryError)
_BROKEN = (zipfile.BadZipFile, zlib.error, pa.ArrowException, EOFError, NotImplementedError, RuntimeError, OSError)


def faithful() -> AbstractContextManager[None]:
    """Turn what goes wrong while the contents are put together into the one sentence of a bad file."""
    return _telling("the contents of the file do not fit together", *_UNFIT, AttributeError)


@contextmanager
def _telling(what: str, *problems: type[Exception]) -> Iterator[None]:
    """Whatever of these a broken file makes its readers raise means one thing."""
    try:
        yield
    except BadSynopsisFile:
        raise
    except problems as problem:
        raise BadSynopsisFile(f"{what}: {_AGAIN}") from problem


def _packed(manifest: Mapping[str, Any], workload: Any, tables: Mapping[str, pa.Table]) -> bytes:
    members = {_WORKLOAD: _json(workload)}
    for name, table in tables.items():
        member = f"tables/{name}.arrow"
        if not _TABLE.fullmatch(member):
            raise ValueError(f"a table of a release is named in small letters, digits, - and _, not {name!r}")
        members[member] = _arrow(table)
    listed = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in members.items()}
    top = _json({"format": FORMAT, "version": VERSION, "members": listed, "release": dict(manifest)})
    members[_MANIFEST] = top
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.comment = _COMMENT + hashlib.sha256(top).hexdigest().encode()
        for name in sorted(members):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.external_attr = 0o644 << 16
            info.compress_type = _compression(members[name])
            archive.writestr(info, members[name], compresslevel=6)
    return out.getvalue()


def _compression(data: bytes) -> int:
    """Large members that would expand like a bomb are stored as they are."""
    if len(data) > _SMALL and len(zlib.compress(data, 1)) * _MOST_EXPANSION < 2 * len(data):
        return zipfile.ZIP_STORED
    return zipfile.ZIP_DEFLATED


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()


def _plain(value: object) -> Any:
    """Numbers of other kinds as JSON has them; everything else is refused."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"a release has no place for a {type(value).__name__}")


def _arrow(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return out.getvalue()


def _unpacked(path: Path, archive: zipfile.ZipFile) -> Contents:
    infos = archive.infolist()
    names = [info.filename for info in infos]
    ways = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    bombs = [i for i in infos if i.file_size > _SMALL and i.file_size > _MOST_EXPANSION * i.compress_size]
    demand(
        BadSynopsisFile,
        (_MANIFEST in names, f"{path} is not a Conspectus release: name a file that a release wrote"),
        (len(set(names)) == len(names) <= _MOST_MEMBERS, f"{path} has members that no release has: {_AGAIN}"),
        (
            all(info.compress_type in ways and not info.flag_bits & 1 for info in infos),
            f"{path} is packed in a way that no release is: {_AGAIN}",
        ),
        (not bombs, f"{path} would unpack to far more than its size: {_AGAIN}"),
        (
            sum(info.file_size for info in infos) <= MOST_BYTES,
            f"{path} would unpack to more than {MOST_BYTES >> 30} GB, too large to be read",
        ),
    )
    top = _member(archive, _MANIFEST, _MOST_MANIFEST)
    manifest = _read_json(top)
    fields = manifest if isinstance(manifest, dict) else {}
    version, listed, release = (fields.get(name) for name in ("version", "members", "release"))
    demand(
        BadSynopsisFile,
        (fields.get("format") == FORMAT, f"{path} is not a Conspectus release: name a file that a release wrote"),
        (
            not isinstance(version, int) or version <= VERSION,
            f"{path} was written by a newer Conspectus (file version {version}): install that",
        ),
        (version == VERSION, f"{path} has a file version that this Conspectus does not read: release again"),
        (
            archive.comment == _COMMENT + hashlib.sha256(top).hexdigest().encode(),
            f"{path} does not match its own digest: {_AGAIN}",
        ),
    )
    if not isinstance(listed, dict) or not isinstance(release, dict) or set(listed) | {_MANIFEST} != set(names):
        raise BadSynopsisFile(f"{path} lists other members than it has: {_AGAIN}")
    members = {name: _checked(path, archive, name, entry) for name, entry in listed.items()}
    workload = _read_json(members.pop(_WORKLOAD))
    tables = {_name(path, member): read_file(data) for member, data in members.items()}
    return Contents(manifest=release, workload=workload, tables=tables)


def _read_json(data: bytes) -> Any:
    """A JSON value whose texts are texts: half of a surrogate pair can be read, and then neither shown nor written."""
    value = json.loads(data.decode())
    if _SURROGATE.search(data):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """The bytes of a member, never more than `most` whatever its header says; zipfile checks the CRC at the end."""
    with archive.open(name) as member:
        data = member.read(most + 1)
    if len(data) > most:
        raise BadSynopsisFile(f"a member of {archive.filename or 'the file'} is longer than it says: {_AGAIN}")
    return data


def _checked(path: Path, archive: zipfile.ZipFile, name: str, entry: Any) -> bytes:
    if not isinstance(entry, dict) or type(entry.get("bytes")) is not int or not 0 <= entry["bytes"] <= MOST_BYTES:
        raise BadSynopsisFile(f"{path} does not say how long its members are: {_AGAIN}")
    data = _member(archive, name, entry["bytes"])
    if len(data) != entry["bytes"] or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise BadSynopsisFile(f"{path} does not match its own digest: {_AGAIN}")
    return data


def _name(path: Path, member: str) -> str:
    found = _TABLE.fullmatch(member)
    if found is None:
        raise BadSynopsisFile(f"{path} has members that no release has: {_AGAIN}")
    return found[1]
