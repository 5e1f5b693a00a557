"""The version that a step of a bucket uses."""

from fencepost.errors import FencepostError
from fencepost.spark.work.caches import Published, newest_usable
from fencepost.spark.work.claims import Claim, Claims, current_micro_batch, keep_lease
from fencepost.spark.work.task import Task


def version_in_force(task: Task, held: int | None, newest: int | None) -> Claim:
    """The version from this step on: the same in all buckets, and again when the micro-batch is repeated.

    `held` is the version of the bucket's state, if it has any; `newest` the newest one that a marker announced.
    """
    if not task.follow or not isinstance(task.source, Published):
        return Claim(task.planned, 0)
    source, batch = task.source, current_micro_batch()
    if newest is None:
        if held is None:
            raise FencepostError(
                f"rows before any version of {source.directory}",
                "a marker of each published version",
                "Start the query anew; if that does not help, publish the rules again.",
            )
        claim = Claim(held, 0)
    elif batch is None:
        claim = Claim(newest, 0)
    else:
        claim = Claims(source.versions).claim(batch, lambda: newest_usable(source, newest, held, task.version_check()))
    if batch is not None:
        keep_lease(source.versions, claim.version, f"{task.operator} {batch.query}")
    return claim
