"""Releases taken apart, changed inside, and put together again with all digests right."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from tests.fuzzing.mutations import mutated_bytes, mutated_json, nudged

Members = dict[str, bytes]
COMPRESSIONS = (None, None, None, "zstd", "lz4")


def unpacked(data: bytes) -> Members:
    """The members of a release by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: Members, *, top: dict[str, Any] | None = None) -> bytes:
    """One file of these members. The manifest lists them, and the comment holds its digest."""
    manifest = json.loads(members["manifest.json"]) if top is None else top
    if isinstance(manifest, dict):
        others = {name: data for name, data in members.items() if name != "manifest.json"}
        listed = {name: {"sha256": hashlib.sha256(d).hexdigest(), "bytes": len(d)} for name, d in others.items()}
        manifest = {**manifest, "members": listed}
    members = {**members, "manifest.json": json.dumps(manifest).encode("utf-8", errors="surrogatepass")}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        digest = hashlib.sha256(members["manifest.json"]).hexdigest()
        archive.comment = b"conspectus manifest sha256 " + digest.encode()
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name), members[name])
    return out.getvalue()


def changed_release(random: Random, members: Members) -> bytes:
    """A release with one or two members changed; sometimes the bytes of the whole file instead."""
    if random.random() < 0.08:
        return mutated_bytes(random, packed(members))
    members = dict(members)
    top = None
    for name in sorted(
        {random.choice(["manifest.json"] * 3 + sorted(members)) for _ in range(random.choice((1, 1, 1, 2)))}
    ):
        if name == "manifest.json":
            top = top or json.loads(members[name])
            part = random.choice(sorted(top["release"]))
            change = random.choice((nudged, mutated_json))
            if random.random() < 0.1:
                top = mutated_json(random, top)
                break
            top["release"][part] = change(random, top["release"][part])
        elif name == "workload.json":
            changed = random.choice((nudged, mutated_json))(random, json.loads(members[name]))
            members[name] = json.dumps(changed).encode("utf-8", errors="surrogatepass")
        elif random.random() < 0.3:
            members[name] = mutated_bytes(random, members[name])
        else:
            members[name] = arrow(random, changed_table(random, pa.ipc.open_file(members[name]).read_all()))
    if random.random() < 0.03:
        members[random.choice(("tables/x.arrow", "../x", "workload.json", "x.py"))] = b"x"
    return packed(members, top=top)


def changed_table(random: Random, table: pa.Table) -> pa.Table:
    """A table with a column changed, retyped, renamed, repeated or gone, or with other rows."""
    place = random.randrange(max(table.num_columns, 1))
    if not table.num_columns:
        return pa.table({"a": [1]})
    name, column = table.column_names[place], table.column(place).combine_chunks()
    match random.randrange(8):
        case 0:
            return table.remove_column(place)
        case 1:
            return table.rename_columns([f"{each}s" if each == name else each for each in table.column_names])
        case 2:
            return table.append_column(random.choice((name, "more")), column)
        case 3:
            rows = [random.randrange(max(table.num_rows, 1)) for _ in range(random.choice((0, 1, table.num_rows, 50)))]
            return table.take(pa.array(rows, pa.int64())) if table.num_rows else table
        case 4:
            kinds = (pa.int64(), pa.float64(), pa.large_string(), pa.uint8(), pa.float32(), pa.binary(), pa.null())
            try:
                return table.set_column(place, name, column.cast(random.choice(kinds)))
            except pa.ArrowException:
                return table.set_column(place, name, pa.nulls(table.num_rows))
        case 5:
            lengthy = pa.Array.from_buffers(pa.null(), 1 << 30, [None])
            return pa.table({name: lengthy})
        case _:
            return table.set_column(place, name, _values(random, column))


def _values(random: Random, column: pa.Array) -> pa.Array:
    """The values of a column with some of them changed, in the same type."""
    values = column.to_pylist()
    for _ in range(random.choice((1, 1, 2, 5)) if values else 0):
        at = random.randrange(len(values))
        if isinstance(values[at], str):
            try:
                values[at] = json.dumps(random.choice((nudged, mutated_json))(random, json.loads(values[at])))
            except ValueError:
                values[at] = values[at][::-1]
        elif isinstance(values[at], bytes):
            values[at] = mutated_bytes(random, values[at])
        elif isinstance(values[at], float):
            values[at] = random.choice((0.0, -1.0, np.nan, np.inf, 1e300, -values[at], None, 5e-324))
        else:
            values[at] = random.choice((0, 1, -1, 255, 1 << 31, (1 << 63) - 1, None, values[0]))
    try:
        return pa.array(values, column.type)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return column[::-1]


def arrow(random: Random, table: pa.Table) -> bytes:
    """An Arrow file of a table, sometimes with compressed buffers."""
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=random.choice(COMPRESSIONS))
    with pa.ipc.new_file(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return out.getvalue()
