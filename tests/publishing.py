"""What processes of their own do with a directory at a URL; they start faster without what tests import."""

import os
from typing import Any

import fencepost as fp
from fencepost.published import VersionDirectory


def publish_and_load(url: str, together: Any, told: Any, other_cache: str) -> None:
    """Publish at the same time as others, then load one version at the same time, as a host that has no copy of it."""
    rules = fp.Rules()
    rules.add(7, "price > 3")
    rules.compile()
    together.wait()
    number = rules.publish(url)
    together.wait()
    os.environ["FENCEPOST_CACHE"] = other_cache
    told.put((number, len(VersionDirectory(url).load(2))))
