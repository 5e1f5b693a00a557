"""Where the model bends: what a workload has that the model does not follow, or that no cluster cures."""

from collections.abc import Iterator

from fencepost._memory import show_size
from fencepost.buckets import MOST_BUCKETS
from fencepost.sizing.model import BUCKETS_PER_CORE, Hosts, Size, Workload, usable_memory

MEASURED_RULES = 3_000_000
"""The most rules of a run that the model was checked against."""
_MANY_EVENTS = 100
"""Per row: from here on nearly all the work is writing them."""


def find_bends(workload: Workload, hosts: Hosts, size: Size) -> list[str]:
    """Where the model does not follow a workload, or no cluster cures it: a sentence for each, with what to do."""
    return [*_of_keys(workload, hosts, size), *_of_rules(workload), *_of_hosts(workload, hosts, size)]


def _of_keys(workload: Workload, hosts: Hosts, size: Size) -> Iterator[str]:
    busiest = "key" if workload.operator == "bands" else "object"
    if size.hot_seconds > 1:
        yield (
            f"The busiest {busiest} has {workload.hot:.3g} of all rows, which is the work of {size.hot_seconds:.1f} "
            "cores, and one core alone does it: the stream falls behind. Drop or combine its rows in front of "
            "fencepost."
        )
    elif size.hot_seconds > 1 - hosts.headroom:
        yield (
            f"The busiest {busiest} keeps one core busy for {size.hot_seconds:.2f} of every second, longer than the "
            "others: the latency is that of its bucket."
        )
    if workload.operator == "bands" and workload.keys <= 1 and size.cores > 1:
        yield "Without a key, bands is the work of one core, however many there are. Name a key that both sides have."
    if workload.operator == "bands" and 1 < workload.keys < size.cores:
        yield f"There are fewer keys than cores, and a key is the work of one core: {workload.keys:.0f} have any."


def _of_rules(workload: Workload) -> Iterator[str]:
    if workload.always:
        verb = "is found" if workload.operator == "match" else "that detects inside is reported"
        yield (
            f"A rule that always holds {verb} for every row: {workload.always:,.0f} of them are so many events per "
            "row. Rules that detect enter and exit cost nothing while they hold."
        )
    if workload.operator == "watch" and workload.cross * workload.jump > _MANY_EVENTS:
        yield (
            f"A row jumps over {workload.cross * workload.jump:,.0f} rules that detect cross, and each is an event: "
            "what decides is how far objects jump, not how many rules there are."
        )
    if workload.rules > MEASURED_RULES:
        yield (
            f"Runs with up to {MEASURED_RULES:,} rules were compared with the model; beyond that it goes on by the "
            "logarithm of their number."
        )
    if workload.operator == "bands" and workload.groups > 1000:
        yield "Bands that gather around more than 1,000 differences cost more than the model says: try a sample."


def _of_hosts(workload: Workload, hosts: Hosts, size: Size) -> Iterator[str]:
    if size.memory_per_host > usable_memory(hosts):
        yield (
            f"{show_size(size.memory_per_host)} per host are more than {show_size(usable_memory(hosts))}, which "
            f"{show_size(hosts.memory)} with this headroom leave. Take hosts with more memory or fewer cores."
        )
    if size.trigger_seconds > workload.trigger:
        yield (
            f"A trigger of {workload.trigger:g} s is too short for what each costs by itself; "
            f"{size.trigger_seconds:.2g} s leave the headroom."
        )
    if workload.operator == "match":
        return
    if hosts.buckets is not None and hosts.buckets < size.cores:
        yield (
            f"{hosts.buckets:,} buckets are the work of {hosts.buckets:,} cores at most. Take "
            f"{min(MOST_BUCKETS, BUCKETS_PER_CORE * size.cores):,}, and a new checkpoint."
        )
    if hosts.buckets is None and BUCKETS_PER_CORE * size.cores > MOST_BUCKETS:
        yield f"There are at most {MOST_BUCKETS:,} buckets: split the objects over several streams."
