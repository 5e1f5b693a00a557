"""The recorded answers: a compressed archive per group of scenarios, and how answers are compared with them."""

import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.corpus.playing import Record

DIRECTORY = Path(__file__).parent / "recorded"
_ID = "event_id"
_STEPS = b"steps"


def path_of(group: str) -> Path:
    """The file of a group of scenarios."""
    return DIRECTORY / f"{group}.tar.xz"


def write_records(path: Path, played: Iterable[tuple[str, list[Record]]]) -> None:
    """Write the answers of scenarios, by name.

    Answers of one scenario that have one schema become one Arrow stream. Its metadata has the step of each answer, its
    place among all answers and its rows.
    """
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, records in played:
            for number, table in enumerate(_merged(records)):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as stream:
                    stream.write_table(table)
                content = sink.getvalue().to_pybytes()
                member = tarfile.TarInfo(f"{name}/{number}.arrows")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def _merged(records: list[Record]) -> Iterator[Any]:
    """The tables of each schema in one, with ids as bytes."""
    alike: list[tuple[Any, list[int]]] = []
    for place, (_, table) in enumerate(records):
        for schema, places in alike:
            if schema.equals(table.schema):
                places.append(place)
                break
        else:
            alike.append((table.schema, [place]))
    for schema, places in alike:
        steps = [(place, records[place].step, records[place].table.num_rows) for place in places]
        table = pa.concat_tables([records[place].table for place in places]).combine_chunks()
        if _ID in schema.names:
            packed = [bytes.fromhex(id) for id in table[_ID].to_pylist()]
            table = table.set_column(schema.get_field_index(_ID), _ID, pa.array(packed, pa.binary(16)))
        yield table.replace_schema_metadata({_STEPS: json.dumps(steps)})


def read_records(path: Path) -> dict[str, list[Record]]:
    """The recorded answers of each scenario, in their order."""
    placed: dict[str, list[tuple[int, Record]]] = {}
    with tarfile.open(path, "r:xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None, f"{member.name} is a file"
            table = pa.ipc.open_stream(file.read()).read_all()
            steps = json.loads(table.schema.metadata[_STEPS])
            table = table.replace_schema_metadata(None)
            if _ID in table.schema.names:
                texts = [id.hex() for id in table[_ID].to_pylist()]
                table = table.set_column(table.schema.get_field_index(_ID), _ID, pa.array(texts, pa.string()))
            own, first = placed.setdefault(member.name.rpartition("/")[0], []), 0
            for place, step, rows in steps:
                own.append((place, Record(step, table.slice(first, rows))))
                first += rows
    return {name: [record for _, record in sorted(own, key=lambda each: each[0])] for name, own in placed.items()}


def first_difference(recorded: list[Record], played: list[Record], *, new_columns: bool = False) -> str | None:
    """Where answers differ from the recorded ones: a few lines that name the first row that does; None if nowhere.

    Args:
        recorded: the answers as they were.
        played: the answers as they are.
        new_columns: whether tables may have columns that were not recorded.

    """
    for before, now in zip(recorded, played, strict=False):
        if before.step != now.step:
            return f"step {before.step} was recorded, step {now.step} was played in its place"
        table = now.table.select([name for name in before.table.schema.names if name in now.table.schema.names])
        difference = _difference(before.table, table if new_columns else now.table)
        if difference is not None:
            return f"step {before.step}: {difference}"
    if len(recorded) != len(played):
        return f"{len(recorded)} answers were recorded, {len(played)} were played"
    return None


def _difference(recorded: Any, played: Any) -> str | None:
    if not recorded.schema.equals(played.schema):
        before, now = (", ".join(f"{each.name} {each.type}" for each in table.schema) for table in (recorded, played))
        return f"other columns\n  recorded  {before}\n  played    {now}"
    before, now = _bits(recorded), _bits(played)
    if before.equals(now):
        return None
    ends = min(before.num_rows, now.num_rows)
    rows = (row for row in range(ends) if before.slice(row, 1).to_pylist() != now.slice(row, 1).to_pylist())
    row = next(rows, ends)
    where = ""
    if row < ends:
        names = [name for name in before.schema.names if before[name][row].as_py() != now[name][row].as_py()]
        where = f" in {', '.join(names)}"
    shown = [table.slice(row, 1).to_pylist()[0] if row < table.num_rows else "nothing" for table in (recorded, played)]
    return (
        f"row {row} of {recorded.num_rows} recorded and {played.num_rows} played differs{where}\n"
        f"  recorded  {shown[0]}\n  played    {shown[1]}"
    )


def _bits(table: Any) -> Any:
    """The table with floats as their bits (-0.0 is not 0.0, and NaN equals itself), and without dictionaries."""
    integers = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}
    columns = []
    for column in table.columns:
        array = column.combine_chunks()
        array = array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
        columns.append(array.view(integers[array.type]) if array.type in integers else array)
    return pa.table(columns, names=table.schema.names) if columns else table
