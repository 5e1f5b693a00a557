"""What failed for a reason that may pass is tried again, after a pause that doubles."""

import re
import threading

from fencepost.errors import FencepostError, UnreachableError
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime.log import Log
from fencepost.rules.durations import parse_duration

_LONGEST_PAUSE = 60.0
_PASSING = re.compile(
    r"kafka\.common\.errors\.(Timeout|Disconnect|Network|NotLeader|NotEnoughReplicas|\w*NotAvailable|\w*Retriable)"
    r"|java\.net\.(Connect|SocketTimeout|UnknownHost|NoRouteToHost|Socket)Exception"
    r"|Connection (refused|reset|timed out)|ExecutorLostFailure|masters are unresponsive"
    r"|[Tt]imed out waiting for a node assignment|Failed to (get|fetch) offsets|Failed to construct kafka"
)
"""How Spark names failures that are not those of the pipeline: a server that is gone, an executor that was lost."""


def may_pass(text: str) -> bool:
    """Whether a failure of Spark, in its own words, may go away by itself."""
    return _PASSING.search(text) is not None


class Retries:
    """How often to try again, and when; success makes it start over."""

    def __init__(self, file: PipelineFile, log: Log) -> None:
        session = file.section("session")
        self._retries = session.get("retries", 0)
        self._pause = parse_duration(session.get("pause", "5 seconds")).total_seconds()
        self._log, self._tried = log, 0

    def succeeded(self) -> None:
        """What is tried has worked since."""
        self._tried = 0

    def wait(self, what: str, error: FencepostError | str, stop: threading.Event) -> bool:
        """Say in one line what failed, and wait; whether to try again."""
        if self._tried >= self._retries or stop.is_set():
            return False
        pause = min(self._pause * 2.0**self._tried, _LONGEST_PAUSE)
        self._tried += 1
        said = " ".join((error.one_line if isinstance(error, FencepostError) else error).split())
        self._log.warning(f"{what}: {said} Retry {self._tried} of {self._retries} in {pause:g} s.")
        return not stop.wait(pause)


def is_passing(error: FencepostError) -> bool:
    """Whether another attempt makes sense."""
    return isinstance(error, UnreachableError)
