"""Files for streams."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["put_file"]


def put_file(table: pa.Table, folder: Path, number: int) -> None:
    """Write a file whole; a stream takes files in the order of their times, which may tie unless they are set."""
    draft = folder / f".{number:04}.parquet"
    pq.write_table(table, draft)
    written = time.time() - 1000 + number
    os.utime(draft, (written, written))
    draft.rename(folder / f"{number:04}.parquet")
