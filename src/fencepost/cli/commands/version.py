"""`fencepost version`."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from fencepost.cli.options import Json
from fencepost.cli.output import print_json


def version(as_json: Json = False) -> None:
    """Print the version of fencepost."""
    try:
        number = installed("fencepost")
    except PackageNotFoundError:
        number = "from source, not installed"
    if as_json:
        print_json({"fencepost": number, "python": platform.python_version()})
    else:
        print(f"fencepost {number}")
