"""Modules can be imported by the names that they had before."""

from importlib import import_module

import pytest

from fencepost._moved import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_gives_the_module_of_the_new_one(old: str) -> None:
    if old.startswith("fencepost.spark"):
        pytest.importorskip("pyspark")
    assert import_module(old) is import_module(MOVED[old])
    assert import_module(MOVED[old]).__spec__.name == MOVED[old]  # type: ignore[union-attr]


def test_submodules_of_moved_packages_are_the_same_modules() -> None:
    from fencepost.lab.reproduce import figure

    assert import_module("fencepost.reproduce.figure") is figure


def test_names_that_lie_elsewhere_now_can_still_be_imported() -> None:
    from fencepost import published, snapshot

    assert snapshot.VersionDirectory is published.VersionDirectory
    assert snapshot.routing is published.routing
