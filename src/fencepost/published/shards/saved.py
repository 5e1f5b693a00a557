"""The shards of a snapshot, and those of all versions of a directory as they are saved.

    parts/plan.json       how rules are cut, fixed by the first publisher
    parts/03/00000001/    shard 3 of version 1, a snapshot like any other
    parts/head/00000001/  what a reader must know of version 1 without having its rules

Shards are written before their version is announced, and go with it. Layer by layer a shard is what it has of the
layers of the whole, so that versions share in each shard the layers that they share as a whole.
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

    def save(self, path: Place, shards: Sequence[str] = ()) -> str:
        """Write it as a new directory; its digest.

        `shards` are the digests of the shards, where nothing else says which they are.
        """
        header = {"rules": self.rules, "detected": self.detected, "columns": self.columns, "parts": list(shards)}
        return store.write(path, header, {"expires": self.expires}, {})

    @classmethod
    def load(cls, path: Place) -> "Head":
        """What `save` wrote."""
        stored = store.read(path, verify=True)
        header = stored.header
        return cls(header["rules"], header["detected"], tuple(header["columns"]), stored.arrays["expires"])


def cut_into_shards(snapshot: Snapshot, plan: ShardPlan, saved: Place | None = None) -> Iterator[Snapshot]:
    """The shards of a snapshot, one after the other.

    `saved` says where the shards of layers are that versions beside it have already.
    """
    masks = [rule_masks(plan, layer) for layer in snapshot.layers]
    for shard in range(plan.shards):
        layers: list[Layer] = []
        hidden = []
        for layer, of_rules, gone in zip(snapshot.layers, masks, snapshot.hidden, strict=True):
            rows = np.flatnonzero(of_rules & (np.uint64(1) << np.uint64(shard)))
            own = None if saved is None else _saved_layer(layer, saved / f"{shard:02}", layers)
            layers.append(Layer.build(layer.take(rows, snapshot.types), layers) if own is None else own)
            assert len(layers[-1]) == len(rows), "a layer and its shards are saved together"
            hidden.append(None if gone is None else gone[rows])
        yield Snapshot(layers, hidden, snapshot.types, snapshot.paused, snapshot.version, snapshot.zone)


def _saved_layer(layer: Layer, versions: Place, below: Sequence[Layer]) -> Layer | None:
    """What one shard has of a layer, if the version that brought the layer is there."""
    home = layer.home
    if home is None or home.path.parent != versions.parent.parent:
        return None
    path = versions / home.path.name
    if not exists(path / store.HEADER):
        return None
    holder = store.read(path, verify=False)  # readers verify what they load
    return Layer.stored(holder, Home(path, home.number, holder.digest), below)


class ShardDirectory:
    """The shards of the versions in one directory."""

    def __init__(self, path: Place) -> None:
        self.path = path.absolute()

    def plan(self) -> ShardPlan | None:
        """How rules are cut here; None where they are not."""
        if not exists(self.path / _PLAN):
            return None
        return ShardPlan.from_json(store.read_header(self.path, _PLAN)[0])

    def fix(self, plan: ShardPlan) -> ShardPlan:
        """Cut the rules like this from now on, unless somebody was faster: then that one's plan."""
        make_directory(self.path)
        try:
            store.write_header(self.path / _PLAN, plan.as_json())
        except FileExistsError:
            fixed = self.plan()
            assert fixed is not None, "a plan that exists can be read"
            return fixed
        return plan

    def save(self, name: str, snapshot: Snapshot, plan: ShardPlan, *, shared: bool) -> None:
        """Write the shards of a version; call it before the version itself is saved, and so has a home.

        Layers that versions beside it have are left out where they are `shared`.
        """
        Head.of(snapshot).save(self.path / "head" / name)
        for number, shard in enumerate(cut_into_shards(snapshot, plan, self.path if shared else None)):
            shard.save(self._shard(name, number), shared=shared)

    def head(self, name: str) -> Head:
        """What a version is, without its rules."""
        return Head.load(self._present(self.path / "head" / name))

    def load(self, name: str, shard: int) -> Snapshot:
        """Map one shard of a version, verified."""
        return Snapshot.load(self._present(self._shard(name, shard)))

    def check(self, name: str, plan: ShardPlan) -> None:
        """Refuse a version of which some shard cannot be loaded; nothing stays mapped."""
        self.head(name)
        for shard in range(plan.shards):
            self.load(name, shard)

    def delete(self, name: str) -> None:
        """Delete the shards of a version."""
        plan = self.plan()
        for shard in range(0 if plan is None else plan.shards):
            delete_tree(self._shard(name, shard))
        delete_tree(self.path / "head" / name)

    def _shard(self, name: str, shard: int) -> Place:
        return self.path / f"{shard:02}" / name

    def _present(self, path: Place) -> Place:
        if not exists(path):
            raise FencepostError(
                f"version {int(path.name)} of {self.path.parent} has no shards",
                "a version that was published with shards",
                "Publish the rules again.",
            )
        return path
