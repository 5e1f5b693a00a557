"""Columns that published rules need, beside those that sources have."""

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.errors import FencepostError
from fencepost.pipeline.file.columns import Columns
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.file.faults import Fault
from fencepost.published import VersionDirectory
from fencepost.snapshot import Snapshot, Table


def rule_column_faults(
    file: PipelineFile, columns: Mapping[str, Columns | None], versions: VersionDirectory, snapshot: Snapshot
) -> Iterator[Fault]:
    """Columns that rules need and a source lacks, or has in a type that does not convert."""
    from fencepost.spark.plan.columns import needed_columns
    from fencepost.spark.work.band_task import needed_by_bands

    added = versions.added_columns()  # without one of them, a stream leaves some rules out
    for section, own in columns.items():
        if own is None:
            continue
        needed: Mapping[str, str | None]
        if file.section("operator").get("kind") == "bands":
            numbers, texts, same = needed_by_bands(snapshot)[section == "source.right"]
            needed = {**dict.fromkeys(sorted(same)), **dict.fromkeys(sorted(texts), "key"), **numbers}
        else:
            needed = versions.schema() or needed_columns(snapshot)
        for name, kind in needed.items():
            if name not in added and (error := _find_fault(own.types, name, kind, snapshot)) is not None:
                got = error.got.replace("a frame", "a source")
                yield file.fault(f"{section}.schema", got, error.expected, _in_file(error.remedy))


def _find_fault(own: Mapping[str, Any], name: str, kind: str | None, snapshot: Snapshot) -> FencepostError | None:
    """What is wrong with a column of a source; without a kind, any type will do."""
    from fencepost.spark.plan.columns import bind_columns, own_name

    types = [(column, type_) for column, type_ in own.items() if type_ is not None]
    if name.lower() in {column.lower() for column in own} - {column.lower() for column, _ in types}:
        return None  # only Spark can tell its type
    try:
        if kind is None:
            own_name(Table(dict.fromkeys(own, ())), name, lambda: "since rules compare it with the other side")
        else:
            bind_columns(types, {name: kind}, snapshot)
    except FencepostError as error:
        return error
    return None


def _in_file(remedy: str) -> str:
    return remedy.replace("the frame has", "the source has").replace("Cast the column", "Cast it in source.columns")
