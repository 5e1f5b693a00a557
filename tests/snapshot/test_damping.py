"""Damping and outer boxes in snapshots: saved, packed, layered, hidden with their rules."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import Rules
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.snapshot import Snapshot
from tests.dampings import options
from tests.effort import examples

ROWS = {
    "price": [None, -5.0, 0.0, 9.0, 15.0, 19.5, 21.0, 1e9],
    "volume": [9.0, None, 1.0, 9.0, 1.0, 9.0, 1.0, 9.0],
    "gate": [None, "G", "H", None, "G", "H", None, "G"],
    "venue": ["A", "B", None, 'ü"', "A", "B", 'ü"', "C"],
}


def facts(snapshot: Snapshot) -> Any:
    """All that is known of the damping of rules in force, by id."""
    rows = set(snapshot.in_force.tolist())
    damping = snapshot.damping
    found: dict[int, Any] = {}
    if damping is not None:
        assert (np.diff(damping.rules) > 0).all()
        for place, row in enumerate(damping.rules.tolist()):
            if row in rows:
                numbers = [each[place] for each in damping[1:-1]]
                found[int(snapshot.rules.ids[row])] = (*map(int, numbers), damping.texts[place].as_py())
    stay = snapshot.stay
    if stay is None:
        return found, None, snapshot.columns
    own = stay.in_force
    main = snapshot.rows_of(stay.rules.ids[own])
    assert (main >= 0).all()
    assert (snapshot.rules.versions[main] == stay.rules.versions[own]).all()
    boxes = {
        int(stay.rules.ids[row]): sorted(
            (sorted(keys.items()), sorted(ranges.items())) for keys, ranges in stay.boxes_of(row)
        )
        for row in own.tolist()
    }
    return found, (boxes, stay.match(ROWS).sets()), snapshot.columns


changes = st.lists(
    st.tuples(st.integers(0, 8), st.none() | options(every=True), st.sampled_from([15, 20])), min_size=1, max_size=5
)


@examples(60)
@given(st.lists(changes, min_size=1, max_size=5), st.booleans())
def test_layers_say_the_same_as_one_snapshot(steps: list[Any], loads: bool) -> None:
    rules = Rules()
    for id in range(100, 140):  # so that a few changes become a layer of their own
        rules.add(id, f"price > {id} AND venue = 'v{id}'", **({"limit": 1} if id % 2 else {}))
    schema = {"price": "double", "volume": "double", "venue": "string"}
    snapshot = rules.compile(schema)
    for step in steps:
        for id, given_options, bound in step:
            if given_options is None:
                if id in rules:
                    rules.remove(id)
            elif id in rules:
                rules.replace(id, f"price < {bound}", **given_options)
            else:
                rules.add(id, f"price < {bound}", **given_options)
        snapshot = rules.compile(schema)
        if loads:
            snapshot = Snapshot.from_bytes(snapshot.to_bytes())
        alone = Rules.from_dicts([_as_mapping(rule) for rule in rules]).compile(schema)
        assert facts(snapshot) == facts(alone)
        assert snapshot.match(ROWS).sets() == alone.match(ROWS).sets()
        assert facts(snapshot.only(snapshot.in_force)) == facts(alone)


def _as_mapping(rule: Any) -> dict[str, Any]:
    from fencepost.rules.options import fields_of

    return fields_of(rule)


@examples(30)
@given(st.lists(options(), min_size=1, max_size=4))
def test_saved_packed_and_pickled(tmp_path_factory: pytest.TempPathFactory, drawn: list[dict[str, Any]]) -> None:
    rules = Rules()
    for id, given_options in enumerate(drawn):
        rules.add(id, "price < 20 AND venue = 'A'" if id % 2 else "price < 20", **given_options)
    snapshot = rules.compile()
    path = tmp_path_factory.mktemp("saved") / "snapshot"
    snapshot.save(path)
    for again in (Snapshot.load(path), Snapshot.from_bytes(snapshot.to_bytes()), pickle.loads(pickle.dumps(snapshot))):
        assert facts(again) == facts(snapshot)
        assert again.to_bytes() == snapshot.to_bytes()
    hidden = snapshot.without(np.array([0]))
    found, stay, _ = facts(hidden)
    assert 0 not in found
    assert stay is None or 0 not in stay[0]


def test_a_snapshot_without_damping_has_the_bytes_it_had() -> None:
    rules = Rules()
    rules.add(1, "price > 1", detect="enter")
    layer = rules.compile().layers[0]
    assert (layer.damping, layer.stay) == (None, None)
    assert sorted(layer.described()) == ["bands", "dropped", "groups", "keys"]
    assert not any(name.startswith(("damping.", "stay.")) for part in layer.to_arrays() for name in part)


def test_published_versions_share_layers_with_their_outer_boxes(tmp_path: Path) -> None:
    rules, directory = Rules(), tmp_path / "rules"
    for id in range(60):
        rules.add(id, f"price < {id} AND venue = 'A'", margin={"price": 1}, for_=id)
    rules.publish(directory, {"price": "double", "venue": "string", "gate": "string"})
    rules.replace(3, "price < 3 AND venue = 'B'", stay="price < 4 AND venue = 'B' OR gate = 'G'")
    rules.remove(4)
    rules.publish(directory)
    loaded = VersionDirectory(directory).load(2)
    assert len(loaded.layers) == 2
    assert facts(loaded) == facts(rules.compile({"price": "double", "venue": "string", "gate": "string"}))
    assert loaded.stay is not None
    assert loaded.stay.match({"price": [None], "venue": [None], "gate": ["G"]}).sets() == [{3}]
    again = VersionDirectory(directory).load(2)
    assert again.stay is not None
    assert len(again.stay.unlike(loaded.stay)) == 0


def test_shards_refuse_damped_rules(tmp_path: Path) -> None:
    rules = Rules()
    rules.add(1, "price > 1 AND venue = 'A'")
    rules.publish(tmp_path / "parts", shards=2)
    rules.add(2, "price > 1 AND venue = 'A'", for_="5 minutes")
    with pytest.raises(FencepostError, match="Rule 2 with .*5 minutes.* in shards; .*cannot be in shards yet.*without"):
        rules.publish(tmp_path / "parts")
    with pytest.raises(FencepostError, match="cannot be in shards yet"):
        rules.publish(tmp_path / "others", shards=2)
    rules.replace(2, "price > 1 AND venue = 'A'", for_="5 minutes", enabled=False)
    assert rules.publish(tmp_path / "parts") > 1
