"""Pipelines in a TOML file: source, rules, operator and sink; checked as a whole, then run on Spark."""

import sys
import threading
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fencepost.pipeline.file.faults import Fault, PipelineFaultsError

if TYPE_CHECKING:
    from fencepost.pipeline.file.document import PipelineFile
    from fencepost.pipeline.runtime.progress import Summary

__all__ = ["Fault", "PipelineFaultsError", "check", "run"]


def check(path: str | PathLike[str]) -> list[Fault]:
    """Everything that is wrong with a pipeline, found without starting Spark.

    Args:
        path: of the TOML file.
    """
    return _check_file(path)[1]


def run(
    path: str | PathLike[str], spark: Any = None, *, out: TextIO | None = None, stop: threading.Event | None = None
) -> "Summary":
    """Run a pipeline until SIGINT, SIGTERM or `stop`, or with ``once = true`` until all rows are read.

    A pipeline with faults is refused with all of them.

    Args:
        path: of the TOML file.
        spark: a session of your own; without one, the pipeline makes it from ``[session]``.
        out: where a line of progress goes every second; standard error by default.
        stop: an event that ends the pipeline when it is set.
    """
    file, faults = _check_file(path)
    if faults:
        raise PipelineFaultsError(file.path.name, faults)
    from fencepost.pipeline.runtime.running import run_file

    return run_file(file, spark, sys.stderr if out is None else out, stop)


def _check_file(path: str | PathLike[str]) -> "tuple[PipelineFile, list[Fault]]":
    from fencepost.pipeline.file.checks import pipeline_faults  # brings the indexes with it
    from fencepost.pipeline.file.document import read_pipeline

    file, faults = read_pipeline(Path(path))
    if file.sections:
        faults += pipeline_faults(file)
    return file, sorted(faults, key=lambda fault: (fault.line is None, fault.line or 0))
