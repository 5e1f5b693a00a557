"""Pipelines in a TOML file: source, rules, operator and sink; checked as a whole, then run on Spark.

file/           the file, read and checked
runtime/        the pipeline that runs
connector       parts of Spark that pyspark does not have, such as its Kafka connector
status          what a pipeline did last, in a file that anyone may read
"""

import sys
import threading
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fencepost.pipeline.file.faults import Fault, Findings, PipelineFaultsError

if TYPE_CHECKING:
    from fencepost.book import Progress
    from fencepost.pipeline.file.document import PipelineFile
    from fencepost.pipeline.runtime.log import Log, LogFormat
    from fencepost.pipeline.runtime.progress import Summary
    from fencepost.pipeline.runtime.running import Beside

__all__ = ["Fault", "Findings", "PipelineFaultsError", "check", "run"]


def check(path: str | PathLike[str], *, progress: "Progress" = lambda *_: None) -> Findings:
    """Everything that is wrong with a pipeline, found without starting Spark.

    What only Spark can tell is in `Findings.unchecked`. The rules of a book are compared with the columns last, and
    only where nothing else is wrong; where they were left out, `Findings.left_out` says so.

    Args:
        path: of the TOML file.
        progress: called with what is being done, how many rules are done, and how many there are.
    """
    return _check_file(path, each_rule=True, progress=progress)[1]


def run(
    path: str | PathLike[str],
    spark: Any = None,
    *,
    out: TextIO | None = None,
    stop: threading.Event | None = None,
    log_format: "LogFormat" = "text",
    beside: "Beside | None" = None,
) -> "Summary":
    """Run a pipeline until SIGINT, SIGTERM or `stop`, or with ``once = true`` until all rows are read.

    A pipeline with faults is refused with all of them. Rules of a book that do not fit the source are left out and
    named in `out`. Where a server does not answer, or goes away meanwhile, it is tried again as ``[session] retries``
    says.

    Args:
        path: of the TOML file.
        spark: a session of your own; without one, the pipeline makes it from ``[session]``.
        out: where lines with time and level go, one of progress every second; standard error by default.
        stop: an event that ends the pipeline when it is set.
        log_format: ``text``, or ``json`` for an object a line.
        beside: what runs beside the pipeline and looks on, such as ``fencepost.console.pipelined.open_console``.
    """
    from fencepost.pipeline.runtime.log import Log

    stop = stop or threading.Event()
    log = Log(sys.stderr if out is None else out, log_format)
    log.info(f"checking {Path(path).name} and its rules ...")
    file, faults = _check_file(path, each_rule=False, any_format=spark is not None)
    log.hide = file.secrets.hide
    if faults:
        file, faults = _check_again(file, faults, log, stop, any_format=spark is not None)
    if faults:
        raise PipelineFaultsError(file.path.name, faults)
    from fencepost.pipeline.runtime.running import run_file

    return run_file(file, spark, log, stop, beside)


def _check_again(
    file: "PipelineFile", faults: Findings, log: "Log", stop: threading.Event, *, any_format: bool
) -> "tuple[PipelineFile, Findings]":
    """The same after as many retries as it takes, or may take, until every server answers."""
    from fencepost.pipeline.runtime.retries import Retries
    from fencepost.pipeline.runtime.signals import heard_signals

    retries = Retries(file, log)
    while faults and all(fault.may_pass for fault in faults):
        with heard_signals(stop):
            again = retries.wait("not started", str(faults[0]), stop)
        if not again:
            break
        file, faults = _check_file(file.path, each_rule=False, any_format=any_format)
    return file, faults


def _check_file(
    path: str | PathLike[str], *, each_rule: bool, any_format: bool = False, progress: "Progress" = lambda *_: None
) -> "tuple[PipelineFile, Findings]":
    from fencepost.pipeline.file.checks import left_out_checks, pipeline_faults, unchecked_parts  # brings the indexes
    from fencepost.pipeline.file.document import read_pipeline

    file, faults = read_pipeline(Path(path), any_format=any_format)
    unchecked: list[str] = []
    left_out: list[str] = []
    if file.sections:
        faults = pipeline_faults(file, each_rule, progress, faults)
        unchecked = unchecked_parts(file)
        left_out = left_out_checks(file, faults) if each_rule else []
    found = Findings(sorted(faults, key=lambda fault: (fault.line is None, fault.line or 0)))
    found.unchecked, found.left_out = tuple(unchecked), tuple(left_out)
    return file, found
