"""What the model is fed with: every constant with its unit and meaning, and the file of those that were measured."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Constant(NamedTuple):
    """What a number of the model is."""

    unit: str
    meaning: str


class Constants(NamedTuple):
    """The numbers of the model, by the names of `CONSTANTS`."""

    match_row: float
    match_doubling: float
    match_found: float
    match_attribute: float
    match_key: float
    match_range: float
    match_shards: float
    watch_row: float
    watch_doubling: float
    watch_event: float
    watch_attribute: float
    watch_key: float
    watch_range: float
    watch_shards: float
    bands_row: float
    bands_group: float
    bands_event: float
    trigger_cpu: float
    bucket_cpu: float
    shuffled_row: float
    shuffled_attribute: float
    shuffled_match: float
    shuffled_move: float
    state_object: float
    state_attribute: float
    state_bands_row: float
    logged_object: float
    logged_bucket: float
    event_bytes: float
    snapshot_rule: float
    snapshot_range: float
    snapshot_key: float
    python_core: float
    python_row: float
    python_object: float
    python_rule: float
    jvm: float
    publish_rule: float
    publish_memory: float


CONSTANTS: Mapping[str, Constant] = {
    "match_row": Constant("CPU s", "a row of match among 1,000 rules, without what it finds"),
    "match_doubling": Constant("CPU s", "more for a row of match with every doubling of the rules"),
    "match_found": Constant("CPU s", "a rule that a row of match is in"),
    "match_attribute": Constant("CPU s", "a further number that a row of match carries"),
    "match_key": Constant("CPU s", "more for a row of match where rules compare a key, a text"),
    "match_range": Constant("CPU s", "more for a row of match with every further range of a rule"),
    "match_shards": Constant("CPU s", "more for a row of match where rules are in shards"),
    "watch_row": Constant("CPU s", "a row of watch among 1,000 rules, without its events"),
    "watch_doubling": Constant("CPU s", "more for a row of watch with every doubling of the rules"),
    "watch_event": Constant("CPU s", "an event of watch"),
    "watch_attribute": Constant("CPU s", "a further number that a row of watch carries"),
    "watch_key": Constant("CPU s", "more for a row of watch where rules compare a key, a text"),
    "watch_range": Constant("CPU s", "more for a row of watch with every further range of a rule"),
    "watch_shards": Constant("CPU s", "more for a row of watch where rules are in shards"),
    "bands_row": Constant("CPU s", "a row of bands, without its groups and events"),
    "bands_group": Constant("CPU s", "a group of bands that a row of bands is compared with"),
    "bands_event": Constant("CPU s", "an event of bands"),
    "trigger_cpu": Constant("CPU s", "a trigger of few rows, without its buckets"),
    "bucket_cpu": Constant("CPU s", "a bucket that a trigger touches"),
    "shuffled_row": Constant("bytes", "a row of watch in the shuffle: object, time and one number"),
    "shuffled_attribute": Constant("bytes", "a further number of a row in the shuffle"),
    "shuffled_match": Constant("bytes", "a row of match in the shuffle, where rules are in shards"),
    "shuffled_move": Constant("bytes", "a row of watch in the second shuffle, where rules are in shards"),
    "state_object": Constant("bytes", "an object in the state store: its number, its time and one number"),
    "state_attribute": Constant("bytes", "a further number of an object in the state store"),
    "state_bands_row": Constant("bytes", "a row of bands in the state store"),
    "logged_object": Constant("bytes", "an object that a trigger touched, as the state store writes it"),
    "logged_bucket": Constant("bytes", "a bucket that a trigger touched, as the state store writes it"),
    "event_bytes": Constant("bytes", "an event in Arrow's form, before a sink has packed it"),
    "snapshot_rule": Constant("bytes", "a rule with one range in a snapshot, on disk and mapped"),
    "snapshot_range": Constant("bytes", "a further range of a rule in a snapshot"),
    "snapshot_key": Constant("bytes", "a distinct key of the rules in a snapshot"),
    "python_core": Constant("bytes", "the Python workers of a core, most of which is code"),
    "python_row": Constant("bytes", "a row that a core has in one trigger, in its Python workers"),
    "python_object": Constant("bytes", "an object that a core has at hand, in its Python workers"),
    "python_rule": Constant("bytes", "a rule in a Python worker, beside the pages that are mapped"),
    "jvm": Constant("bytes", "the JVM of an executor: twice what lives in its heap, and what is outside of it"),
    "publish_rule": Constant("CPU s", "a rule of a table, compiled and published for the first time"),
    "publish_memory": Constant(
        "bytes", "a rule while it is compiled and published, at the peak, with the table that it is from"
    ),
}
"""By name, in the order of `Constants`. CPU seconds are those of the driver, the JVM and the Python workers together,
on a core of the machine that was measured."""


class Measured(NamedTuple):
    """The constants, and the machine and the run that they were measured in."""

    constants: Constants
    machine: Mapping[str, Any]


@cache
def read_measured() -> Measured:
    """The constants that come with fencepost, which `make bench-spark` has written."""
    return parse_measured(files("fencepost.sizing").joinpath("constants.json").read_text(encoding="utf-8"))


def parse_measured(text: str) -> Measured:
    """What `format_measured` wrote."""
    kept = json.loads(text)
    values = {name: float(kept["constants"][name]["value"]) for name in CONSTANTS}
    return Measured(Constants(**values), kept["machine"])


def format_measured(measured: Measured) -> str:
    """The content of the file: four digits are more than a measurement has."""
    constants = {
        name: {"value": float(f"{value:.4g}"), **CONSTANTS[name]._asdict()}
        for name, value in measured.constants._asdict().items()
    }
    return json.dumps({"machine": dict(measured.machine), "constants": constants}, indent=2) + "\n"
