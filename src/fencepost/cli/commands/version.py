"""`fencepost version`."""

import platform

from fencepost import __version__
from fencepost.cli.options import Json
from fencepost.cli.output import print_json


def version(as_json: Json = False) -> None:
    """Print the version of fencepost."""
    if as_json:
        print_json({"fencepost": __version__, "python": platform.python_version()})
    else:
        print(f"fencepost {__version__}")
