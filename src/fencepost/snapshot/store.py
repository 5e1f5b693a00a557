"""Snapshots as files: a directory with `header.json` and `arrays.bin`, checksummed, mapped copy-on-write.

The header lists every array with its type, shape and place, and ends in a checksum of itself; it is written last, so
a directory without one was never finished. Arrays start on 64-byte boundaries.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost._files.local_copies import keep_copy, make_draft, map_copy, mapped
from fencepost._files.storage import Place, create, exists, read_text, refusing, upload
from fencepost.errors import FencepostError
from fencepost.indexes.kernels.checksum import checksum
from fencepost.indexes.kernels.strings import StringTable

FORMAT = 2
MAGIC = "fencepost snapshot"
HEADER, ARRAYS = "header.json", "arrays.bin"
_ALIGNED = 64
_DTYPES = {"|b1", "|u1", "<i2", "<u2", "<u4", "<u8", "<i8", "<f8"}


def write(
    path: Place, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], texts: Mapping[str, Any]
) -> str:
    """Write arrays and Arrow string arrays under a header, into a directory that does not exist yet; its digest."""
    parts = dict(arrays)
    for name, strings in texts.items():
        parts |= _text_arrays(name, strings)
    described = {**header, "texts": list(texts)}
    try:
        if isinstance(path, Path):
            path.mkdir(parents=True)
            return write_header(path / HEADER, {**described, **_write_arrays(path / ARRAYS, parts)})
        return _write_remote(path, described, parts)
    except FileExistsError:
        raise FencepostError(f"{path}, which exists", "a new directory", "Save under another name.") from None


def _write_remote(path: Place, described: Mapping[str, Any], parts: Mapping[str, npt.NDArray[Any]]) -> str:
    """Write by way of a local file, which this host then need not copy to read it."""
    if exists(path / HEADER):
        raise FileExistsError(str(path))
    with make_draft() as draft:
        header = {**described, **_write_arrays(draft, parts)}
        upload(draft, path / ARRAYS)
        digest = write_header(path / HEADER, header)
        keep_copy(draft, digest)
    return digest


def _write_arrays(file: Path, parts: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Write arrays to a local file; what the header says of it."""
    places = []
    at = 0
    with file.open("wb") as opened:
        for name, array in parts.items():
            data = np.ascontiguousarray(array)
            opened.write(b"\0" * (-at % _ALIGNED))
            at += -at % _ALIGNED
            places.append([name, data.dtype.str, list(data.shape), at])
            opened.write(data.reshape(-1).view(np.uint8).data)
            at += data.nbytes
        opened.write(b"\0" * (-at % _ALIGNED))
        opened.flush()
        os.fsync(opened.fileno())
    memory = mapped(file)
    return {"arrays": places, "bytes": len(memory), "checksum": checksum(memory)}


def write_header(file: Place, header: Mapping[str, Any]) -> str:
    """Write a header to a file that must not exist; its digest."""
    full = {"magic": MAGIC, "format": FORMAT, **header}
    digest = _digest(json.dumps(full, sort_keys=True))
    create(file, json.dumps({"header": full, "digest": digest}))
    return digest


class Stored(NamedTuple):
    """What one directory holds."""

    header: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    texts: dict[str, Any]
    digest: str


def read(path: Place, verify: bool) -> Stored:
    """What `write` wrote to a directory."""
    header, digest = read_header(path)
    check = partial(_check, path, header)
    try:
        if isinstance(path, Path):
            with refusing(path / ARRAYS):
                memory = mapped(path / ARRAYS)
            check(memory, verify)
        else:
            memory = map_copy(path / ARRAYS, digest, verify, check)
    except FileNotFoundError:
        raise _refused(path, f"no {ARRAYS}", f"{header['bytes']:,} bytes") from None
    arrays = {}
    for name, dtype, shape, at in header["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        if dtype not in _DTYPES or at < 0 or at + count * np.dtype(dtype).itemsize > len(memory):
            raise _refused(path, f"array {name} at {at} of type {dtype}", "an array inside the file")
        arrays[name] = memory[at : at + count * np.dtype(dtype).itemsize].view(dtype).reshape(shape)
    texts = {name: _text(arrays, name) for name in header["texts"]}
    return Stored(header, {name: a for name, a in arrays.items() if not name.startswith("text.")}, texts, digest)


def _check(path: Place, header: Mapping[str, Any], memory: npt.NDArray[np.uint8], verify: bool) -> None:
    """Refuse bytes that are not those of the arrays."""
    if len(memory) != header["bytes"]:
        raise _refused(path, f"{ARRAYS} with {len(memory):,} bytes", f"{header['bytes']:,} bytes")
    if verify and checksum(memory) != header["checksum"]:
        raise _refused(path, f"{ARRAYS} with another checksum", "the bytes that were saved")


def read_header(path: Place, name: str = HEADER) -> tuple[dict[str, Any], str]:
    """The header in a directory that `write` made, or in another file that `write_header` did, and its digest."""
    try:
        outer = json.loads(read_text(path / name))
        header: dict[str, Any] = outer["header"]
        digest = outer["digest"]
        magic, version = header["magic"], header["format"]
    except FileNotFoundError:
        raise _refused(path, f"no {name}", "a finished snapshot") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _refused(path, f"a {name} that cannot be read", "the header of a snapshot") from None
    if not isinstance(header, dict) or magic != MAGIC:
        raise _refused(path, f"a header of {magic!r}", f"{MAGIC!r}")
    if version != FORMAT:
        raise FencepostError(
            f"a snapshot of format {version} in {path}",
            f"format {FORMAT}",
            "Upgrade fencepost."
            if isinstance(version, int) and version > FORMAT
            else "Compile and save the rules again.",
        )
    if digest != _digest(json.dumps(header, sort_keys=True)):
        raise _refused(path, "a header that was changed", "the header that was saved")
    return header, digest


def _refused(path: Place, got: str, expected: str) -> FencepostError:
    return FencepostError(f"{got} in {path}", expected, "Save or publish the snapshot again.")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _text_arrays(name: str, strings: Any) -> dict[str, npt.NDArray[Any]]:
    array = strings.cast(pa.large_string())
    filled = array.fill_null("")
    _, offsets, data = filled.buffers()
    return {
        f"text.{name}.offsets": np.frombuffer(offsets, np.int64)[filled.offset : filled.offset + len(filled) + 1]
        if len(filled)
        else np.zeros(1, np.int64),
        f"text.{name}.data": np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8),
        f"text.{name}.valid": np.asarray(array.is_valid().to_numpy(zero_copy_only=False)),
    }


def _text(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Any:
    offsets, data, valid = (arrays[f"text.{name}.{field}"] for field in ("offsets", "data", "valid"))
    mask = pa.array(valid).buffers()[1] if len(valid) else None
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeStringArray.from_buffers(len(valid), buffers[1], buffers[2], buffers[0])


def with_prefix(items: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The items under a prefix, without it."""
    return {name.removeprefix(prefix): item for name, item in items.items() if name.startswith(prefix)}


def string_table_from(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> StringTable:
    """The string table whose arrays have this prefix."""
    return StringTable(**with_prefix(arrays, prefix))
