"""The model of `fencepost size`: more of anything never needs less, bytes and seconds scale as they must."""

import json
from importlib.resources import files
from math import inf
from typing import Any

import pytest
from benchmarks import sizing_page
from hypothesis import given
from hypothesis import strategies as st

from fencepost.sizing import Constants, Hosts, Workload, find_bends, read_measured, size_of
from fencepost.sizing.bends import MEASURED_RULES
from fencepost.sizing.constants import CONSTANTS, format_measured, parse_measured
from fencepost.sizing.model import (
    OPERATORS,
    checkpoint_bytes,
    host_memory,
    objects_held,
    python_bytes,
    row_seconds,
    shuffled_bytes,
    snapshot_bytes,
    state_bytes,
    usable_memory,
    written_bytes,
)

KNOWN = read_measured().constants
AMPLE = Hosts(memory=1e18)
"""Hosts on which nothing is cut into shards."""
amounts = st.floats(1, 1e9)
shares = st.floats(0, 1)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    rules, ranges = draw(amounts), draw(st.integers(1, 4))
    return Workload(
        rules=rules,
        rows_per_second=draw(st.floats(0.1, 1e7)),
        objects=draw(amounts),
        events_per_row=draw(st.floats(0, 100)),
        operator=draw(st.sampled_from(OPERATORS)),
        keys=draw(st.just(0.0) | st.floats(1, rules)),
        ranges=ranges,
        attributes=ranges + draw(st.integers(0, 4)),
        timeout=draw(st.none() | st.floats(1e-3, 1e7)),
        trigger=draw(st.floats(0.01, 600)),
        groups=draw(st.floats(1, 1000)),
        hot=draw(shares),
        always=draw(st.floats(0, 10)),
        cross=draw(st.floats(0, rules)),
        jump=draw(st.floats(0, 1e-6)),
    )


machines = st.builds(
    Hosts,
    cores=st.integers(1, 128),
    memory=st.floats(1e9, 1e13),
    headroom=st.floats(0.05, 0.9),
    buckets=st.none() | st.integers(1, 4096),
    replicas=st.integers(1, 3),
)

GROWS = {
    "rules": 2.0,
    "rows_per_second": 3.0,
    "objects": 2.0,
    "events_per_row": 2.0,
    "keys": 2.0,
    "always": 2.0,
    "cross": 2.0,
    "jump": 2.0,
    "hot": 1.0,
    "groups": 2.0,
}


@given(workloads(), st.sampled_from(sorted(GROWS)))
def test_more_of_anything_needs_no_less(workload: Workload, name: str) -> None:
    more = workload._replace(**{name: getattr(workload, name) * GROWS[name]})
    before, after = (size_of(each, AMPLE, KNOWN) for each in (workload, more))
    for field in (
        "cores",
        "buckets",
        "snapshot_bytes",
        "state_bytes",
        "shuffle_bytes_per_second",
        "events_per_second",
        "event_bytes_per_second",
        "latency_seconds",
        "worst_latency_seconds",
        "publish_seconds",
        "publish_memory",
        "row_seconds",
        "hot_seconds",
    ):
        assert getattr(after, field) >= getattr(before, field) * (1 - 1e-9), field


@given(workloads())
def test_columns_ranges_and_keys_are_not_for_nothing(workload: Workload) -> None:
    wider = workload._replace(attributes=workload.attributes + 1)
    longer = wider._replace(ranges=workload.ranges + 1)
    keyed = workload._replace(keys=max(workload.keys, 1))
    for part in (row_seconds, shuffled_bytes, snapshot_bytes):
        known: Any = part
        assert known(workload, KNOWN) <= known(wider, KNOWN) <= known(longer, KNOWN)
        assert known(workload, KNOWN) <= known(keyed, KNOWN)
    assert row_seconds(workload, KNOWN) <= row_seconds(workload, KNOWN, sharded=True)
    assert shuffled_bytes(workload, KNOWN) <= shuffled_bytes(workload, KNOWN, sharded=True)


@given(workloads(), machines)
def test_a_size_is_whole_and_finite(workload: Workload, hosts: Hosts) -> None:
    size = size_of(workload, hosts, KNOWN)
    assert all(0 <= value < inf for value in size)
    assert 1 <= size.hosts <= size.cores
    assert 1 <= size.shards <= 64
    assert size.shards == 1 or workload.operator != "bands"
    assert size.latency_seconds <= size.worst_latency_seconds
    assert size.trigger_seconds >= workload.trigger
    assert size.checkpoint_bytes >= size.state_bytes * hosts.replicas
    if workload.operator == "match":
        assert size.state_bytes == size.checkpoint_bytes == size.written_bytes_per_second == size.hot_seconds == 0
        assert size.shards > 1 or size.shuffle_bytes_per_second == 0
    bends = find_bends(workload, hosts, size)
    assert any("per host are more" in each for each in bends) == (size.memory_per_host > usable_memory(hosts))
    assert all(each.endswith(".") for each in bends)


@given(workloads(), machines)
def test_cores_keep_their_headroom(workload: Workload, hosts: Hosts) -> None:
    size = size_of(workload, hosts, KNOWN)
    busy = workload.rows_per_second * size.row_seconds
    assert busy <= size.cores * (1 - hosts.headroom) * (1 + 1e-9)


@given(workloads(), machines)
def test_shards_come_only_where_the_rules_do_not_fit(workload: Workload, hosts: Hosts) -> None:
    size = size_of(workload, hosts, KNOWN)
    richer = size_of(workload, hosts._replace(memory=1e18), KNOWN)
    assert richer.shards == 1
    assert size.hosts >= richer.hosts
    if size.memory_per_host <= usable_memory(hosts):
        again = host_memory(workload, KNOWN, size.hosts, size.cores, size.shards, size.trigger_seconds)
        assert again == pytest.approx(size.memory_per_host)


@given(workloads(), st.floats(1, 1e7), st.integers(1, 4096))
def test_a_trigger_writes_no_more_than_all_objects(workload: Workload, rows: float, buckets: int) -> None:
    held = objects_held(workload)
    assert held <= workload.objects
    written = written_bytes(workload, KNOWN, held, buckets, rows)
    most = state_bytes(workload, KNOWN, held) + buckets * KNOWN.logged_bucket
    assert 0 <= written <= most * (1 + 1e-9)
    assert written <= written_bytes(workload, KNOWN, held, buckets, 2 * rows) * (1 + 1e-9)
    assert checkpoint_bytes(workload, KNOWN, held, 7) == pytest.approx(checkpoint_bytes(workload, KNOWN, held, 0) + 7)


def test_a_timeout_forgets_who_says_nothing() -> None:
    busy = Workload(1, 1e6, 1e6, timeout=3600)
    assert objects_held(busy) == pytest.approx(1e6)
    assert objects_held(busy._replace(rows_per_second=1, timeout=1000)) == pytest.approx(1000, rel=1e-3)
    assert objects_held(busy._replace(timeout=None)) == 1e6


def test_units_hang_together() -> None:
    """Twice the bytes of a constant are twice the bytes of what it counts; CPU seconds likewise."""
    asked = Workload(1e6, 1e5, 1e6, 0.3, keys=1e4, attributes=2)
    doubled = Constants(*(2 * value for value in KNOWN))
    for part in (row_seconds, shuffled_bytes, snapshot_bytes):
        known: Any = part
        assert known(asked, doubled) == pytest.approx(2 * known(asked, KNOWN))
    assert python_bytes(asked, doubled, 1, 2, 3) == pytest.approx(2 * python_bytes(asked, KNOWN, 1, 2, 3))
    once, twice = (size_of(asked, AMPLE, constants) for constants in (KNOWN, doubled))
    assert twice.publish_seconds == pytest.approx(2 * once.publish_seconds)
    assert twice.state_bytes == pytest.approx(2 * once.state_bytes)


def bends_of(**changes: Any) -> str:
    usual = {"rules": 1e5, "rows_per_second": 1e6, "objects": 1e6, "events_per_row": 0.3, "trigger": 30}
    workload = Workload(**usual | changes)
    return " ".join(find_bends(workload, Hosts(), size_of(workload, Hosts(), KNOWN)))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hot": 0.9, "rows_per_second": 1e8}, "one core alone does it"),
        ({"hot": 0.9, "rows_per_second": 1e8, "operator": "bands", "keys": 1e4}, "The busiest key"),
        ({"always": 5}, "5 of them are so many events per row"),
        ({"always": 5, "operator": "match"}, "is found for every row"),
        ({"cross": 1e5, "jump": 0.01}, "jumps over 1,000 rules"),
        ({"rules": 1e9}, f"up to {MEASURED_RULES:,} rules"),
        ({"operator": "bands"}, "Without a key"),
        ({"operator": "bands", "keys": 2}, "fewer keys than cores"),
        ({"operator": "bands", "keys": 1e4, "groups": 5000}, "more than 1,000 differences"),
        ({"trigger": 0.001}, "too short"),
    ],
)
def test_bends_are_named(changes: dict[str, Any], told: str) -> None:
    assert told in bends_of(**changes)
    assert bends_of() == ""


def test_few_buckets_are_told() -> None:
    workload, hosts = Workload(1e5, 1e7, 1e6), Hosts(buckets=4)
    assert "4 buckets are the work of 4 cores" in " ".join(find_bends(workload, hosts, size_of(workload, hosts, KNOWN)))


def test_every_constant_is_in_the_file_with_its_unit_and_meaning() -> None:
    text = files("fencepost.sizing").joinpath("constants.json").read_text()
    kept = json.loads(text)
    assert list(kept["constants"]) == list(CONSTANTS) == list(Constants._fields)
    for name, each in kept["constants"].items():
        assert (each["unit"], each["meaning"]) == CONSTANTS[name], name
        assert each["value"] >= 0, name
    assert {"cpu", "cores", "python", "fencepost", "pyspark"} <= set(kept["machine"])
    assert format_measured(parse_measured(text)) == text
    needed = {"match_row", "watch_row", "bands_row", "trigger_cpu", "state_object", "snapshot_rule", "python_core"}
    assert all(kept["constants"][name]["value"] > 0 for name in needed)


def test_the_page_has_the_sizes_of_these_constants() -> None:
    text = sizing_page.PAGE.read_text(encoding="utf-8")
    measured = read_measured()
    assert sizing_page.size_table(measured) in text
    assert sizing_page.constant_table(measured) in text
