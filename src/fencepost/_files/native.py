"""Files that Arrow reads and writes by itself, whatever bytes their names are."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa


def open_native(path: str | os.PathLike[str], mode: str = "rb") -> Any:
    """A file for Arrow. By a path it would take only names in UTF-8, which other systems do not keep to.

    A file of Python is no substitute: a thread of Arrow that reads one aborts the process when that ends meanwhile.
    """
    return pa.OSFile(os.fsencode(Path(path)), mode)
