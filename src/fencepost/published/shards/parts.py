"""The parts of a snapshot, and the parts of all versions of a directory.

    parts/plan.json       how rules are parted, fixed by the first publisher
    parts/03/00000001/    part 3 of version 1, a snapshot like any other
    parts/head/00000001/  what a reader must know of version 1 without having its rules

Parts are written before their version is announced, and go with it. Layer by layer a part is what it has of the
layers of the whole, so that versions share in each part the layers that they share as a whole.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fencepost._files.storage import Place, delete_tree, exists, make_directory
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.published.shards.plan import ShardPlan, rule_masks
from fencepost.snapshot import store
from fencepost.snapshot.columns import NEVER
from fencepost.snapshot.keys import KeyColumn
from fencepost.snapshot.layer import Home, Layer
from fencepost.snapshot.snapshot import Snapshot

_PLAN = "plan.json"


class Head(NamedTuple):
    """What a reader must know of a version without having its rules."""

    rules: int
    """How many are in force."""
    detected: int
    """Bits of `DETECTS`: every kind that some rule in force detects."""
    columns: tuple[str, ...]
    """Attributes and keys that some rule uses."""
    expires: Int64s
    """The instants at which rules expire, ascending, in microseconds since 1970 UTC."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Head":
        """Of the rules of a snapshot."""
        rows = snapshot.in_force
        detects, expires = snapshot.rules.detects[rows], snapshot.rules.expires[rows]
        detected = int(np.bitwise_or.reduce(detects, initial=0))
        return cls(len(rows), detected, (*snapshot.types, *snapshot.keys), np.unique(expires[expires != NEVER]))

    def save(self, path: Place, parts: Sequence[str] = ()) -> str:
        """Write it as a new directory; its digest.

        `parts` are the digests of the parts, where nothing else says which they are.
        """
        header = {"rules": self.rules, "detected": self.detected, "columns": self.columns, "parts": list(parts)}
        return store.write(path, header, {"expires": self.expires}, {})

    @classmethod
    def load(cls, path: Place) -> "Head":
        """What `save` wrote."""
        stored = store.read(path, verify=True)
        header = stored.header
        return cls(header["rules"], header["detected"], tuple(header["columns"]), stored.arrays["expires"])


def parts_of(snapshot: Snapshot, plan: ShardPlan, saved: Place | None = None) -> Iterator[Snapshot]:
    """The parts of a snapshot, one after the other.

    `saved` says where the parts of layers are that versions beside it have already.
    """
    masks = [rule_masks(plan, layer) for layer in snapshot.layers]
    for part in range(plan.parts):
        layers: list[Layer] = []
        hidden = []
        for layer, of_rules, gone in zip(snapshot.layers, masks, snapshot.hidden, strict=True):
            below = layers[-1].columns if layers else {}
            rows = np.flatnonzero(of_rules & (np.uint64(1) << np.uint64(part)))
            own = None if saved is None else _saved_layer(layer, saved / f"{part:02}", below)
            layers.append(Layer.build(layer.taken(rows, snapshot.types), below) if own is None else own)
            assert len(layers[-1]) == len(rows), "a layer and its parts are saved together"
            hidden.append(None if gone is None else gone[rows])
        yield Snapshot(layers, hidden, snapshot.types, snapshot.paused, snapshot.version)


def _saved_layer(layer: Layer, versions: Place, below: dict[str, KeyColumn]) -> Layer | None:
    """What one part has of a layer, if the version that brought the layer is there."""
    home = layer.home
    if home is None or home.path.parent != versions.parent.parent:
        return None
    path = versions / home.path.name
    if not exists(path / store.HEADER):
        return None
    holder = store.read(path, verify=False)  # readers verify what they load
    return Layer.stored(holder, Home(path, home.number, holder.digest), below)


class PartDirectory:
    """The parts of the versions in one directory."""

    def __init__(self, path: Place) -> None:
        self.path = path.absolute()

    def plan(self) -> ShardPlan | None:
        """How rules are parted here; None where they are not."""
        if not exists(self.path / _PLAN):
            return None
        return ShardPlan.from_json(store.read_header(self.path, _PLAN)[0])

    def fix(self, plan: ShardPlan) -> ShardPlan:
        """Part the rules like this from now on, unless somebody was faster: then that one's plan."""
        make_directory(self.path)
        try:
            store.write_header(self.path / _PLAN, plan.as_json())
        except FileExistsError:
            fixed = self.plan()
            assert fixed is not None, "a plan that exists can be read"
            return fixed
        return plan

    def save(self, name: str, snapshot: Snapshot, plan: ShardPlan, *, shared: bool) -> None:
        """Write the parts of a version; call it before the version itself is saved, and so has a home.

        Layers that versions beside it have are left out where they are `shared`.
        """
        Head.of(snapshot).save(self.path / "head" / name)
        for number, part in enumerate(parts_of(snapshot, plan, self.path if shared else None)):
            part.save(self._part(name, number), shared=shared)

    def head(self, name: str) -> Head:
        """What a version is, without its rules."""
        return Head.load(self._present(self.path / "head" / name))

    def load(self, name: str, part: int) -> Snapshot:
        """Map one part of a version, verified."""
        return Snapshot.load(self._present(self._part(name, part)))

    def check(self, name: str, plan: ShardPlan) -> None:
        """Refuse a version of which some part cannot be loaded; nothing stays mapped."""
        self.head(name)
        for part in range(plan.parts):
            self.load(name, part)

    def delete(self, name: str) -> None:
        """Delete the parts of a version."""
        plan = self.plan()
        for part in range(0 if plan is None else plan.parts):
            delete_tree(self._part(name, part))
        delete_tree(self.path / "head" / name)

    def _part(self, name: str, part: int) -> Place:
        return self.path / f"{part:02}" / name

    def _present(self, path: Place) -> Place:
        if not exists(path):
            raise FencepostError(
                f"version {int(path.name)} of {self.path.parent} without its parts",
                "a version that was published with shards",
                "Publish the rules again.",
            )
        return path
