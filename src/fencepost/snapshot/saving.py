"""Snapshots as files and as bytes: what is written of them, and what is read again."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fencepost._files.storage import Place
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import AttributeType
from fencepost.snapshot import store
from fencepost.snapshot.layer import Home, Layer

if TYPE_CHECKING:
    from fencepost.snapshot.snapshot import Snapshot


class Saved(NamedTuple):
    """What a snapshot is made of again; see the arguments of `Snapshot`."""

    layers: Sequence[Layer]
    hidden: Sequence[Bools | None]
    types: Mapping[str, AttributeType]
    paused: Mapping[int, int]
    version: int
    zone: str


def to_arrays(
    snapshot: "Snapshot", beside: Place | None = None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A header, arrays and Arrow strings, without the layers that are in a directory `beside` the new one."""
    paused = np.array(sorted(snapshot.paused.items()), np.int64).reshape(-1, 2)
    arrays: dict[str, Any] = {"paused": paused}
    texts: dict[str, Any] = {}
    described: list[dict[str, Any]] = []
    for number, (layer, mask) in enumerate(zip(snapshot.layers, snapshot.hidden, strict=True)):
        if mask is not None:
            arrays[f"hidden{number}"] = np.packbits(mask)
        home = layer.home
        if beside is not None and home is not None and home.path.parent == beside:
            described.append({"in": home.path.name, "number": home.number, "digest": home.digest})
            continue
        own_arrays, own_texts = layer.to_arrays()
        arrays |= {f"layer{number}.{name}": array for name, array in own_arrays.items()}
        texts |= {f"layer{number}.{name}": text for name, text in own_texts.items()}
        described.append(layer.described())
    header = {
        "version": snapshot.version,
        "types": {name: str(kind) for name, kind in snapshot.types.items()},
        "layers": described,
        **({} if snapshot.zone == "UTC" else {"zone": snapshot.zone}),
    }
    return header, arrays, texts


def read_saved(path: Place, verify: bool) -> Saved:
    """What `Snapshot.save` wrote to a directory."""
    stored = store.read(path, verify)
    layers: list[Layer] = []
    hidden: list[Bools | None] = []
    for number, described in enumerate(stored.header["layers"]):
        home, holder = _home(path, number, described, stored, verify)
        layers.append(Layer.stored(holder, home, layers))
        hidden.append(_hidden(stored, number, len(layers[-1])))
    return _read_rest(stored, layers, hidden)


def read_bytes(data: bytes | memoryview) -> Saved:
    """What `Snapshot.to_bytes` wrote."""
    stored = store.unpack(data)
    layers: list[Layer] = []
    hidden: list[Bools | None] = []
    for number in range(len(stored.header["layers"])):
        layers.append(Layer.unpacked(stored, number, layers))
        hidden.append(_hidden(stored, number, len(layers[-1])))
    return _read_rest(stored, layers, hidden)


def _read_rest(stored: store.Stored, layers: Sequence[Layer], hidden: Sequence[Bools | None]) -> Saved:
    types = {name: AttributeType.parse(kind) for name, kind in stored.header["types"].items()}
    paused = dict(stored.arrays["paused"].tolist())
    return Saved(layers, hidden, types, paused, stored.header["version"], stored.header.get("zone", "UTC"))


def note_of(data: bytes | memoryview) -> Any:
    """The note in what `Snapshot.to_bytes` wrote, of which no array is read; None where there is none."""
    return store.unpack_header(data)[0].get("note")


def in_force_among(path: Place, ids: Int64s) -> Bools:
    """Which of these rules are in force in a saved snapshot; of its arrays, only the ids of rules are read."""
    stored = store.read(path, verify=False)
    found = np.zeros(len(ids), np.bool_)
    for number, described in enumerate(stored.header["layers"]):
        home, holder = _home(path, number, described, stored, verify=False)
        own = holder.arrays[f"layer{home.number}.rules.ids"]
        mask = _hidden(stored, number, len(own))
        found |= np.isin(ids, own if mask is None else own[~mask])
    return found


def _home(
    path: Place, number: int, described: Mapping[str, Any], stored: store.Stored, verify: bool
) -> tuple[Home, store.Stored]:
    """Where a layer of a saved snapshot is: there, or in another one that it builds on."""
    if "in" not in described:
        return Home(path.absolute(), number, stored.digest), stored
    home = Home(path.absolute().parent / described["in"], described["number"], described["digest"])
    holder = store.read(home.path, verify)
    if holder.digest != home.digest:
        raise FencepostError(
            f"{home.path} is not the snapshot that {path} builds on",
            "the one that was there when it was saved",
            "Copy the whole directory again, or publish the rules anew.",
        )
    return home, holder


def _hidden(stored: store.Stored, number: int, rules: int) -> Bools | None:
    """Which rules of one layer of a saved snapshot are hidden; None if none are."""
    packed = stored.arrays.get(f"hidden{number}")
    return None if packed is None else np.unpackbits(packed, count=rules).astype(np.bool_)
