"""The model: pure functions from a workload and the constants to what it needs.

CPU seconds add up: a row costs a fixed part, a part that grows with the logarithm of the rules, and what it reports; a
trigger costs a fixed part and its buckets. Memory is the rules once per host, or the shards of them that its workers
serve, and the workers themselves. Everything is proportional to what was measured, on a core like the one measured.
"""

from math import ceil, expm1, log2
from typing import Literal, NamedTuple

from fencepost.buckets import MOST_BUCKETS
from fencepost.published.shards.plan import MOST_SHARDS
from fencepost.sizing.constants import Constants

Operator = Literal["match", "watch", "bands"]
OPERATORS: tuple[Operator, ...] = ("match", "watch", "bands")

FEW_RULES = 1000
"""What the constants of a row were reduced to: fewer rules cost the same."""
BUCKETS_PER_CORE = 8
KEPT_BATCHES = 100
"""Micro-batches whose changes Spark keeps in a checkpoint (spark.sql.streaming.minBatchesToRetain)."""
KEPT_STATES = 2
"""Whole states in a checkpoint: the last one that was uploaded, and the one before, which goes when it is."""
WARM_OBJECTS = 2_000_000
"""Objects that a Python worker keeps at hand (spark/work/store.py); the others are read from the store."""
LOG_ENTRIES = 256
"""Triggers after which a bucket is written anew, however little they touched (likewise)."""


class Workload(NamedTuple):
    """What a stream has to do: its rules, its rows, and what they cause."""

    rules: float
    rows_per_second: float
    objects: float = 0
    """That have ever been seen; with a timeout, that speak now and then. For bands, the rows of both sides."""
    events_per_row: float = 1
    """Events of watch and bands; for match, the rules that a row is in."""
    operator: Operator = "watch"
    keys: float = 0
    """Distinct values of the key column that rules compare; 0 where they compare none."""
    ranges: int = 1
    """Columns that a rule bounds."""
    attributes: int = 1
    """Numbers that a row carries, for all rules together; as many as ranges, or more."""
    timeout: float | None = None
    """Seconds after which a silent object is forgotten."""
    trigger: float = 1
    """Seconds from one micro-batch to the next."""
    groups: float = 10
    """For bands: differences that the bands gather around."""
    hot: float = 0
    """The share of all rows that the busiest object has; for bands the busiest key."""
    always: float = 0
    """Rules that hold for every row: match finds them each time, watch reports those that detect inside."""
    cross: float = 0
    """Rules that detect cross."""
    jump: float = 0
    """The share of those rules that a row jumps over."""


class Hosts(NamedTuple):
    """The machines that a stream may run on."""

    cores: int = 16
    memory: float = 64e9
    headroom: float = 0.5
    """The share of cores and memory that stays free."""
    buckets: int | None = None
    """None takes eight a core."""
    replicas: int = 1
    """Copies that the file system keeps of a checkpoint."""


class Size(NamedTuple):
    """The cluster that a workload needs."""

    cores: int
    hosts: int
    memory_per_host: float
    """Bytes, of which nothing is headroom."""
    shards: int
    """1 where every worker maps all rules."""
    buckets: int
    snapshot_bytes: float
    """Of one version of the rules, on disk; with shards it is written twice."""
    state_bytes: float
    checkpoint_bytes: float
    """With what Spark keeps of earlier micro-batches, and the copies."""
    written_bytes_per_second: float
    """To the checkpoint."""
    shuffle_bytes_per_second: float
    events_per_second: float
    event_bytes_per_second: float
    trigger_seconds: float
    """From one micro-batch to the next: what was asked for, or more where that is too short."""
    latency_seconds: float
    """From a row's arrival to its events, on average."""
    worst_latency_seconds: float
    """The same for a row that just missed a micro-batch."""
    publish_seconds: float
    """CPU seconds of the first version, on the machine that compiles it."""
    publish_memory: float
    """Bytes there, at the peak."""
    row_seconds: float
    """CPU seconds of a row, with what it reports."""
    hot_seconds: float
    """Seconds of work that the busiest bucket gets in a second; more than 1 is more than a core can do."""


def size_of(workload: Workload, hosts: Hosts, constants: Constants) -> Size:
    """The cluster that a workload needs: every worker has all rules if that fits, else shards, on as few hosts."""
    whole = _laid_out(workload, hosts, constants, shards=1)
    if whole.memory_per_host <= usable_memory(hosts):
        return whole
    further = [] if workload.operator == "bands" else range(2, MOST_SHARDS + 1)
    tried = [_laid_out(workload, hosts, constants, shards, spread=True) for shards in (1, *further)]
    fitting = [each for each in tried if each.memory_per_host <= usable_memory(hosts)]
    if fitting:
        return min(fitting, key=lambda each: (each.hosts, each.shards))
    return min(tried, key=lambda each: (each.memory_per_host, each.hosts))


def usable_memory(hosts: Hosts) -> float:
    """Bytes of a host that may be in use."""
    return hosts.memory * (1 - hosts.headroom)


def _laid_out(workload: Workload, hosts: Hosts, constants: Constants, shards: int, spread: bool = False) -> Size:
    """With so many shards, on the hosts that have the cores; `spread` over more if their memory asks for it."""
    row = row_seconds(workload, constants, shards > 1)
    fixed = fixed_seconds(workload, constants)
    trigger = max(workload.trigger, fixed / hosts.headroom)
    buckets, cores = _buckets_and_cores(workload, hosts, constants, row, trigger)
    count = ceil(cores / hosts.cores)
    while (memory := host_memory(workload, constants, count, cores, shards, trigger)) > usable_memory(hosts):
        most = max(cores, shards)  # a host that serves no shard, and has no core to do work with, would be idle
        if not spread or count >= most:
            break
        count = min(most, count + max(1, count // 8))
    cores = max(cores, count)
    held = objects_held(workload)
    state = state_bytes(workload, constants, held)
    written = written_bytes(workload, constants, held, buckets, workload.rows_per_second * trigger)
    kept = checkpoint_bytes(workload, constants, held, KEPT_BATCHES * written)
    hot = workload.hot * workload.rows_per_second * row if workload.operator != "match" else 0.0
    busy = max(1 - hosts.headroom, hot) * trigger + fixed
    events = events_of(workload) * workload.rows_per_second
    return Size(
        cores=cores,
        hosts=count,
        memory_per_host=memory,
        shards=shards,
        buckets=buckets,
        snapshot_bytes=snapshot_bytes(workload, constants),
        state_bytes=state,
        checkpoint_bytes=kept * hosts.replicas,
        written_bytes_per_second=written / trigger * hosts.replicas,
        shuffle_bytes_per_second=workload.rows_per_second * shuffled_bytes(workload, constants, shards > 1),
        events_per_second=events,
        event_bytes_per_second=events * constants.event_bytes,
        trigger_seconds=trigger,
        latency_seconds=trigger / 2 + busy,
        worst_latency_seconds=trigger + busy,
        publish_seconds=workload.rules * constants.publish_rule,
        publish_memory=workload.rules * constants.publish_memory,
        row_seconds=row,
        hot_seconds=hot,
    )


def _buckets_and_cores(
    workload: Workload, hosts: Hosts, constants: Constants, row: float, trigger: float
) -> tuple[int, int]:
    """Buckets cost at every trigger, so cores and buckets depend on each other."""
    share = 1 - hosts.headroom
    fixed = workload.rows_per_second * row + constants.trigger_cpu / trigger
    if workload.operator == "match":
        return 0, max(1, ceil(fixed / share))
    if hosts.buckets is not None:
        return hosts.buckets, max(1, ceil((fixed + hosts.buckets * constants.bucket_cpu / trigger) / share))
    cores = max(1, ceil(fixed / max(share - BUCKETS_PER_CORE * constants.bucket_cpu / trigger, share / 2)))
    return min(MOST_BUCKETS, max(32, BUCKETS_PER_CORE * cores)), cores


# -- the parts, each of which was checked by itself --------------------------------------------------------


def events_of(workload: Workload) -> float:
    """Events of a row, or rules that it is in: those of narrow rules, of rules that always hold, and of jumps."""
    jumped = workload.cross * workload.jump if workload.operator == "watch" else 0
    return workload.events_per_row + (0 if workload.operator == "bands" else workload.always) + jumped


def row_seconds(workload: Workload, constants: Constants, sharded: bool = False) -> float:
    """CPU seconds of a row with what it reports."""
    if workload.operator == "bands":
        groups = workload.groups * constants.bands_group
        return constants.bands_row + groups + events_of(workload) * constants.bands_event
    name = workload.operator
    reported = constants.match_found if name == "match" else constants.watch_event

    def of(part: str) -> float:
        return float(getattr(constants, f"{name}_{part}"))

    return (
        of("row")
        + log2(max(1, workload.rules / FEW_RULES)) * of("doubling")
        + events_of(workload) * reported
        + (workload.attributes - 1) * of("attribute")
        + (of("key") if workload.keys else 0)
        + (workload.ranges - 1) * of("range")
        + (of("shards") if sharded else 0)
    )


def fixed_seconds(workload: Workload, constants: Constants) -> float:
    """How long a trigger takes whatever it carries: its own work and that of a core's buckets, one after the other."""
    return constants.trigger_cpu + (0 if workload.operator == "match" else BUCKETS_PER_CORE * constants.bucket_cpu)


def objects_held(workload: Workload) -> float:
    """Objects in the state: all, or with a timeout those that have spoken since, at rates that are alike."""
    if workload.operator == "match" or not workload.objects:
        return 0
    if workload.timeout is None:
        return workload.objects
    return workload.objects * -expm1(-workload.timeout * workload.rows_per_second / workload.objects)


def state_bytes(workload: Workload, constants: Constants, objects: float) -> float:
    """Bytes of so many objects in the state store, once."""
    if workload.operator == "bands":
        return objects * constants.state_bands_row
    return objects * (constants.state_object + _further(workload) * constants.state_attribute)


def _further(workload: Workload) -> int:
    """Values of a row beside the first number; a key takes about as many bytes as a number."""
    return workload.attributes - 1 + bool(workload.keys)


def written_bytes(workload: Workload, constants: Constants, objects: float, buckets: int, rows: float) -> float:
    """Bytes that a trigger of so many rows writes to the state, on average.

    It writes the objects that it touches; once half of a bucket has been written so, or the log has its most entries,
    the bucket is written anew.
    """
    if not objects:
        return 0
    touched = objects * -expm1(-rows / objects)
    logged = constants.logged_object + _further(workload) * constants.state_attribute
    whole = state_bytes(workload, constants, objects)
    anew = max(min(1, 2 * touched / objects), 1 / LOG_ENTRIES)
    appended = touched * logged + whole * anew
    return min(appended, whole) + min(buckets, rows) * constants.logged_bucket


def checkpoint_bytes(workload: Workload, constants: Constants, objects: float, written: float) -> float:
    """Bytes of a checkpoint that keeps so many written bytes of triggers beside whole states."""
    return KEPT_STATES * state_bytes(workload, constants, objects) + written


def shuffled_bytes(workload: Workload, constants: Constants, sharded: bool = False) -> float:
    """Bytes that a row sends through shuffles."""
    further = _further(workload) * constants.shuffled_attribute
    if workload.operator == "match":
        return constants.shuffled_match + further if sharded else 0
    return constants.shuffled_row + further + (constants.shuffled_move + 2 * further if sharded else 0)


def snapshot_bytes(workload: Workload, constants: Constants) -> float:
    """Bytes of a version of the rules."""
    rule = constants.snapshot_rule + (workload.ranges - 1) * constants.snapshot_range
    return workload.rules * rule + workload.keys * constants.snapshot_key


def python_bytes(workload: Workload, constants: Constants, rules: float, objects: float, rows: float) -> float:
    """Bytes of the Python workers of one core that has so many rules, objects, and rows in a trigger."""
    held = 0 if workload.operator == "match" else min(objects, WARM_OBJECTS)
    row = constants.python_row * workload.attributes
    return constants.python_core + rules * constants.python_rule + held * constants.python_object + rows * row


def host_memory(workload: Workload, constants: Constants, count: int, cores: int, shards: int, trigger: float) -> float:
    """Bytes that each of so many hosts has in use: rules, workers, the JVM, and the state it serves."""
    workers = ceil(cores / count)
    served = ceil(shards / (workers * count))  # by each worker
    mapped = min(shards, served * workers) / shards
    own = workload.rules * served / shards
    rows = workload.rows_per_second * trigger / (workers * count)
    held = objects_held(workload)
    each = python_bytes(workload, constants, own, held / (workers * count), rows)
    sent = 2 * shuffled_bytes(workload, constants, shards > 1) * workload.rows_per_second * trigger / count
    state = state_bytes(workload, constants, held) / count
    return mapped * snapshot_bytes(workload, constants) + workers * each + constants.jvm + sent + state
