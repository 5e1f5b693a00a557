"""Modules that lie elsewhere now: importing one by its old name gives the module of the new name."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "fencepost.demo": "fencepost.lab.demo",
    "fencepost.indexes.bands": "fencepost.indexes.ssi",
    "fencepost.indexes.bands.contract": "fencepost.indexes.contracts.bands",
    "fencepost.indexes.borders.contract": "fencepost.indexes.contracts.borders",
    "fencepost.indexes.boxes": "fencepost.indexes.box_index",
    "fencepost.indexes.boxes.contract": "fencepost.indexes.contracts.boxes",
    "fencepost.indexes.intervals": "fencepost.indexes.slice_list",
    "fencepost.indexes.intervals.contract": "fencepost.indexes.contracts.intervals",
    "fencepost.monitor.core": "fencepost.monitor.monitor",
    "fencepost.pipeline.changes": "fencepost.pipeline.runtime.changes",
    "fencepost.reproduce": "fencepost.lab.reproduce",
    "fencepost.rules.ruleset": "fencepost.rules.rules",
    "fencepost.snapshot.directory": "fencepost.published.directory",
    "fencepost.spark.worker": "fencepost.spark.work.caches",
    "fencepost.workloads": "fencepost.lab.workloads",
}
"""Old names that docs or tests had, and where their modules are."""


class _Alias(Loader):
    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run under its own name, which it keeps."""
        module.__spec__ = self._spec


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if not fullname.startswith("fencepost."):
            return None
        parent, _, leaf = fullname.rpartition(".")
        new = MOVED.get(fullname) or (f"{MOVED[parent]}.{leaf}" if parent in MOVED else None)
        return None if new is None else ModuleSpec(fullname, _Alias(new))


def follow_moves() -> None:
    """Let old names be imported, once per process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
