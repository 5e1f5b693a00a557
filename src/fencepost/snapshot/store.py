"""Snapshots as files: a directory with `header.json` and `arrays.bin`, checksummed, mapped copy-on-write.

The header lists every array with its type, shape and place, and ends in a checksum of itself; it is written last, so
a directory without one was never finished. Arrays start on 64-byte boundaries.

As bytes, for other processes and in other files, the header comes first, behind its length, and the arrays follow it.
"""

import hashlib
import io
import json
import os
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost._files.local_copies import keep_copy, make_draft, map_copy, mapped
from fencepost._files.storage import Place, create, exists, read_text, refusing, upload
from fencepost.errors import FencepostError
from fencepost.indexes.kernels.checksum import checksum
from fencepost.indexes.kernels.strings import StringTable
from fencepost.indexes.kernels.vectors import aligned_empty

FORMAT, FORMAT_OF_EXPRESSIONS, FORMAT_OF_SIDES = FORMATS = (2, 3, 4)
"""The second is that of snapshots with computed attributes, the third of those with bands that have such, or conditions
of one side: who does not know them must not read them."""
MAGIC = "fencepost snapshot"
HEADER, ARRAYS = "header.json", "arrays.bin"
_ALIGNED = 64
_LENGTH = struct.Struct("<Q")
_DTYPES = {"|b1", "|u1", "<i2", "<u2", "<u4", "<u8", "<i8", "<f8"}


def write(
    path: Place, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], texts: Mapping[str, Any]
) -> str:
    """Write arrays and Arrow string arrays under a header, into a directory that does not exist yet; its digest."""
    parts, described = _parts(arrays, texts), {**header, "texts": list(texts)}
    try:
        if isinstance(path, Path):
            path.mkdir(parents=True)
            return write_header(path / HEADER, {**described, **_write_arrays(path / ARRAYS, parts)})
        return _write_remote(path, described, parts)
    except FileExistsError:
        raise FencepostError(f"{path}, which exists", "a new directory", "Save under another name.") from None


def _parts(arrays: Mapping[str, npt.NDArray[Any]], texts: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Arrays, and those that strings are made of."""
    parts = dict(arrays)
    for name, strings in texts.items():
        parts |= _text_arrays(name, strings)
    return parts


def pack(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], texts: Mapping[str, Any]) -> bytes:
    """The same as bytes."""
    buffer = io.BytesIO()
    places = _put_arrays(buffer, _parts(arrays, texts))
    memory = np.frombuffer(buffer.getbuffer(), np.uint8)
    described = {**header, "texts": list(texts), "arrays": places, "bytes": len(memory), "checksum": checksum(memory)}
    text = _sealed_header(described)[0].encode()
    return b"".join([_LENGTH.pack(len(text)), text, memory.data])


def unpack(data: bytes | memoryview) -> "Stored":
    """What `pack` gave."""
    place, given = "bytes of a snapshot", np.frombuffer(data, np.uint8)
    header, digest, end = unpack_header(data)
    memory = aligned_empty(len(given) - end, np.uint8)[: len(given) - end]
    memory[:] = given[end:]  # aligned and writable, as compiled code knows it from files
    _check(place, header, memory, verify=True)
    return _stored(place, header, memory, digest)


def unpack_header(data: bytes | memoryview) -> tuple[dict[str, Any], str, int]:
    """The header of what `pack` gave, its digest, and where it ends; the arrays are not looked at."""
    place, given = "bytes of a snapshot", np.frombuffer(data, np.uint8)
    end = _LENGTH.size + (_LENGTH.unpack(data[: _LENGTH.size])[0] if len(data) >= _LENGTH.size else 0)
    if end > len(given):
        raise _refused(place, f"{len(given):,} bytes", f"{end:,} or more")
    text = given[_LENGTH.size : end].tobytes().decode(errors="replace")
    return *_open_header(text, place, "header"), end


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
    with file.open("wb") as opened:
        places = _put_arrays(opened, parts)
        opened.flush()
        os.fsync(opened.fileno())
    memory = mapped(file)
    return {"arrays": places, "bytes": len(memory), "checksum": checksum(memory)}


def _put_arrays(file: IO[bytes], parts: Mapping[str, npt.NDArray[Any]]) -> list[list[Any]]:
    """Write arrays one behind the other; the type, shape and place of each."""
    places: list[list[Any]] = []
    at = 0
    for name, array in parts.items():
        data = np.ascontiguousarray(array)
        file.write(b"\0" * (-at % _ALIGNED))
        at += -at % _ALIGNED
        places.append([name, data.dtype.str, list(data.shape), at])
        file.write(data.reshape(-1).view(np.uint8).data)
        at += data.nbytes
    file.write(b"\0" * (-at % _ALIGNED))
    return places


def write_header(file: Place, header: Mapping[str, Any]) -> str:
    """Write a header to a file that must not exist; its digest."""
    text, digest = _sealed_header(header)
    create(file, text)
    return digest


def _sealed_header(header: Mapping[str, Any]) -> tuple[str, str]:
    """A header as text, with the digest of itself."""
    number = FORMAT_OF_SIDES if _has(header, "sides") else FORMAT_OF_EXPRESSIONS if _has(header, "computed") else FORMAT
    full = {"magic": MAGIC, "format": number, **header}
    digest = _digest(json.dumps(full, sort_keys=True))
    return json.dumps({"header": full, "digest": digest}), digest


def _has(header: Mapping[str, Any], what: str) -> bool:
    """Whether a layer has something."""
    layers = [each for each in header.get("layers", ()) if isinstance(each, dict)]
    return any(what in each or what in each.get("stay", ()) for each in layers)


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
    return _stored(path, header, memory, digest)


def _stored(path: Place | str, header: dict[str, Any], memory: npt.NDArray[np.uint8], digest: str) -> Stored:
    """The arrays that a header tells of."""
    arrays = {}
    for name, dtype, shape, at in header["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        if dtype not in _DTYPES or at < 0 or at + count * np.dtype(dtype).itemsize > len(memory):
            raise _refused(path, f"array {name} at {at} of type {dtype}", "an array inside the file")
        arrays[name] = memory[at : at + count * np.dtype(dtype).itemsize].view(dtype).reshape(shape)
    texts = {name: _text(arrays, name) for name in header["texts"]}
    return Stored(header, {name: a for name, a in arrays.items() if not name.startswith("text.")}, texts, digest)


def _check(path: Place | str, header: Mapping[str, Any], memory: npt.NDArray[np.uint8], verify: bool) -> None:
    """Refuse bytes that are not those of the arrays."""
    if len(memory) != header["bytes"]:
        raise _refused(path, f"{ARRAYS} with {len(memory):,} bytes", f"{header['bytes']:,} bytes")
    if verify and checksum(memory) != header["checksum"]:
        raise _refused(path, f"{ARRAYS} with another checksum", "the bytes that were saved")


def read_header(path: Place, name: str = HEADER) -> tuple[dict[str, Any], str]:
    """The header in a directory that `write` made, or in another file that `write_header` did, and its digest."""
    try:
        text = read_text(path / name)
    except FileNotFoundError:
        raise _refused(path, f"no {name}", "a finished snapshot") from None
    except ValueError:
        raise _refused(path, f"a {name} that cannot be read", "the header of a snapshot") from None
    return _open_header(text, path, name)


def _open_header(text: str, path: Place | str, name: str) -> tuple[dict[str, Any], str]:
    """The header in a text, and its digest."""
    try:
        outer = json.loads(text)
        header: dict[str, Any] = outer["header"]
        digest = outer["digest"]
        magic, version = header["magic"], header["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _refused(path, f"a {name} that cannot be read", "the header of a snapshot") from None
    if not isinstance(header, dict) or magic != MAGIC:
        raise _refused(path, f"a header of {magic!r}", f"{MAGIC!r}")
    if version not in FORMATS:
        raise FencepostError(
            f"a snapshot of format {version} in {path}",
            f"a format from {FORMATS[0]} to {FORMATS[-1]}",
            "Upgrade fencepost."
            if isinstance(version, int) and version > FORMATS[-1]
            else "Compile and save the rules again.",
        )
    if digest != _digest(json.dumps(header, sort_keys=True)):
        raise _refused(path, "a header that was changed", "the header that was saved")
    return header, digest


def _refused(path: Place | str, got: str, expected: str) -> FencepostError:
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
    mask = pa.py_buffer(np.packbits(valid, bitorder="little"))  # not pa.array, which imports pandas
    return pa.LargeStringArray.from_buffers(len(valid), pa.py_buffer(offsets), pa.py_buffer(data), mask)


def with_prefix(items: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The items under a prefix, without it."""
    return {name.removeprefix(prefix): item for name, item in items.items() if name.startswith(prefix)}


def string_table_from(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> StringTable:
    """The string table whose arrays have this prefix."""
    return StringTable(**with_prefix(arrays, prefix))
