"""`fencepost size`: the cores, memory and bytes that a stream on Spark needs, from a model."""

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost._memory import parse_size, show_size
from fencepost._text import count
from fencepost.cli.options import Json
from fencepost.cli.output import note, print_json, print_table
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.sizing import Hosts, Size, Workload

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?([kMG]?)", re.IGNORECASE)


def _option(name: str, metavar: str, help: str) -> Any:
    return typer.Option(name, metavar=metavar, help=help)


def size(
    rules: Annotated[str, _option("--rules", "NUMBER", "How many rules: 100_000, 1M, 1e8.")],
    rows: Annotated[str, _option("--rows-per-second", "NUMBER", "Rows that come each second, at the peak.")],
    objects: Annotated[
        str, _option("--objects", "NUMBER", "Objects that watch knows; of bands the rows of both sides.")
    ] = "0",
    events: Annotated[
        str, _option("--events-per-row", "NUMBER", "Events of a row; of match the rules that a row is in.")
    ] = "1",
    operator: Annotated[str, _option("--operator", "match|watch|bands", "What runs.")] = "watch",
    keys: Annotated[
        str, _option("--keys", "NUMBER", "Distinct values of the key that rules compare; 0 for none.")
    ] = "0",
    ranges: Annotated[int, _option("--ranges", "NUMBER", "Columns that a rule bounds.")] = 1,
    attributes: Annotated[
        int | None,
        _option("--attributes", "NUMBER", "Numbers that a row carries for rules; those of a rule if not given."),
    ] = None,
    timeout: Annotated[
        str | None, _option("--timeout", "DURATION", "Forget objects that are silent for so long: 90s, 15m, 1d.")
    ] = None,
    trigger: Annotated[str, _option("--trigger", "DURATION", "From one micro-batch to the next.")] = "1s",
    groups: Annotated[str, _option("--groups", "NUMBER", "Of bands: the differences that they gather around.")] = "10",
    hot: Annotated[
        str, _option("--hot", "SHARE", "The share of all rows that the busiest object has; of bands the busiest key.")
    ] = "0",
    always: Annotated[
        str, _option("--always", "NUMBER", "Rules that hold for every row; of watch those that detect inside.")
    ] = "0",
    cross: Annotated[str, _option("--cross", "NUMBER", "Rules that detect cross.")] = "0",
    jump: Annotated[str, _option("--jump", "SHARE", "The share of those that a row jumps over.")] = "0",
    host_cores: Annotated[int, _option("--host-cores", "NUMBER", "Cores of a host.")] = 16,
    host_memory: Annotated[str, _option("--host-memory", "SIZE", "Memory of a host: 64GB, 128GiB.")] = "64GB",
    headroom: Annotated[
        str, _option("--headroom", "SHARE", "The share of cores and memory that stays free for peaks.")
    ] = "0.5",
    buckets: Annotated[
        int | None, _option("--buckets", "NUMBER", "Buckets of the stream, if not eight for every core.")
    ] = None,
    replicas: Annotated[int, _option("--replicas", "NUMBER", "Copies that the file system keeps of a checkpoint.")] = 1,
    as_json: Json = False,
) -> None:
    """Estimate the cluster that rules and rows need: cores, memory, shards, state, shuffles and latency.

    The model adds up costs that `make bench-spark` measured; docs/sizing.md shows how well it does, and where it bends.
    """
    from fencepost.buckets import checked_buckets
    from fencepost.rules.durations import parse_duration
    from fencepost.sizing import Hosts, Workload, find_bends, read_measured, size_of

    if buckets is not None:
        checked_buckets(buckets)
    _check(operator in ("match", "watch", "bands"), f"--operator {operator}", "match, watch or bands", "Name one.")
    wanted = Workload(
        rules=_number(rules, "--rules", least=1),
        rows_per_second=_number(rows, "--rows-per-second", above=0),
        objects=_number(objects, "--objects"),
        events_per_row=_number(events, "--events-per-row"),
        operator=operator,  # type: ignore[arg-type]
        keys=_number(keys, "--keys"),
        ranges=_whole(ranges, "--ranges"),
        attributes=max(_whole(ranges if attributes is None else attributes, "--attributes"), ranges),
        timeout=None if timeout is None else parse_duration(timeout).total_seconds(),
        trigger=parse_duration(trigger).total_seconds(),
        groups=_number(groups, "--groups", least=1),
        hot=_number(hot, "--hot", most=1),
        always=_number(always, "--always"),
        cross=_number(cross, "--cross"),
        jump=_number(jump, "--jump", most=1),
    )
    for name, part in (("--always", wanted.always), ("--cross", wanted.cross), ("--keys", wanted.keys)):
        _check(
            part <= wanted.rules, f"{name} {part:g} of {wanted.rules:g} rules", "no more than --rules", "Correct it."
        )
    if wanted.operator == "watch":
        _check(wanted.objects >= 1, "watch without objects", "how many objects there are", "Add --objects NUMBER.")
    hosts = Hosts(
        cores=_whole(host_cores, "--host-cores"),
        memory=parse_size(host_memory, "--host-memory"),
        headroom=_number(headroom, "--headroom", above=0, most=0.95),
        buckets=buckets,
        replicas=_whole(replicas, "--replicas"),
    )
    measured = read_measured()
    found = size_of(wanted, hosts, measured.constants)
    bends = find_bends(wanted, hosts, found)
    if as_json:
        asked = {"workload": wanted._asdict(), "host": hosts._asdict()}
        print_json({**found._asdict(), **asked, "warnings": bends, "machine": dict(measured.machine)})
        return
    print_table(("what", "size", "what decides it"), _lines(wanted, hosts, found), title="fencepost size")
    for bend in bends:
        note(f"warning: {bend}")
    note(f"From what was measured on {measured.machine['cpu']}; count more cores where yours are slower.")


def _lines(wanted: "Workload", hosts: "Hosts", found: "Size") -> Iterator[tuple[str, str, str]]:
    rows = wanted.rows_per_second
    stateful = wanted.operator != "match"
    share = f"{1 - hosts.headroom:.0%}"
    yield (
        "cores",
        f"{found.cores:,}",
        f"A row takes {found.row_seconds * 1e6:.2f} us of a core; {_plain(rows)} a second keep the cores {share} busy.",
    )
    yield "hosts", f"{found.hosts:,}", f"Of {count(hosts.cores, 'core')} and {show_size(hosts.memory)} each."
    yield "memory per host", show_size(found.memory_per_host), "The rules, the Python workers, the JVM, and the state."
    sharded = "So many that what a host has to hold fits." if found.shards > 1 else "All rules fit on every host."
    yield "shards", f"{found.shards}", sharded
    yield "rules on disk", show_size(found.snapshot_bytes), "A version; with shards it is written twice."
    if stateful:
        chosen = "As given." if hosts.buckets is not None else "Eight a core, so that the cores have equal shares."
        yield "buckets", f"{found.buckets:,}", chosen
        kept = "with what Spark keeps of 100 micro-batches" + (
            f", in {hosts.replicas} copies" if hosts.replicas > 1 else ""
        )
        yield "state", show_size(found.state_bytes), "The last values of every object that is not forgotten."
        yield "checkpoint", show_size(found.checkpoint_bytes), f"The state, {kept}."
        yield "written to it", f"{show_size(found.written_bytes_per_second)}/s", "The objects that a trigger touches."
    shuffled = "Packed rows on the way to their buckets." if stateful else "Only shards make match shuffle its rows."
    yield "shuffle", f"{show_size(found.shuffle_bytes_per_second)}/s", shuffled
    which = "Events of all rows." if stateful else "Rules that rows are in."
    yield "events", f"{_plain(found.events_per_second)}/s", which
    if stateful:
        yield "events, bytes", f"{show_size(found.event_bytes_per_second)}/s", "Before a sink has packed them."
    yield "trigger", f"{found.trigger_seconds:.3g} s", "As asked for, or as long as its own cost needs."
    yield (
        "latency",
        f"{found.latency_seconds:.2g} s, at worst {found.worst_latency_seconds:.2g} s",
        "Half a trigger, or a whole one, of waiting, then a micro-batch.",
    )
    yield (
        "first publish",
        f"{_duration(found.publish_seconds)}, {show_size(found.publish_memory)}",
        "CPU time and memory where the rules are compiled; later versions write only what changed.",
    )


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:,.0f} min"


def _number(text: str, option: str, *, least: float = 0, most: float = math.inf, above: float = -1) -> float:
    """A number such as 1e8, 100_000 or 1M."""
    found = _NUMBER.fullmatch(text.strip())
    value = math.nan if found is None else float(f"{found[1]}{found[2] or ''}") * _UNITS[found[3].lower()]
    bound = f"more than {above:g}" if above >= 0 else f"{least:g} or more"
    limit = "" if most == math.inf else f", at most {most:g}"
    _check(
        math.isfinite(value) and least <= value <= most and value > above,
        f"{option} {text}",
        f"a number, {bound}{limit}",
        f"Write {option} 100_000, 1M or 1e8." if most == math.inf else f"Write {option} {min(most, 0.5):g}.",
    )
    return value


def _whole(value: int, option: str) -> int:
    _check(value >= 1, f"{option} {value}", "1 or more", f"Write {option} 1.")
    return value


def _check(holds: bool, got: str, expected: str, remedy: str) -> None:
    if not holds:
        raise FencepostError(got, expected, remedy)
