"""Messages in Avro, decoded by Spark's own functions, and in Protobuf, decoded in Python.

A registry gives every message the id of the schema that it was written with. Spark decodes with schemas that are known
when a query starts: those of the topic's subject, and all that were met before, which are kept beside the checkpoint.
A message with another id ends the query; the schema is fetched, and the query goes on from its checkpoint.
"""

import re
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost._files.whole import make_folder, read_note, write_note
from fencepost.errors import FencepostError
from fencepost.pipeline.file.avro import DECODED, read_record
from fencepost.pipeline.file.decoding import Decoded, read_decoded, subjects_of
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.file.protobuf import Decoder
from fencepost.pipeline.file.registry import Registry
from fencepost.pipeline.runtime.identity import own_place

_PERMISSIVE = {"mode": "PERMISSIVE"}
_HEADER = 5
"""Bytes before the record: a zero, and the id of its schema."""
_NEW = "a message with the new schema"
_FETCH = "Delete the file: the schema is fetched again."
_FOUND = re.compile(rf"{_NEW} (\S+)/(\d+)")


class NewSchemaError(FencepostError):
    """A message whose schema is not known yet; with it, the query can go on."""

    def __init__(self, section: str, id: int) -> None:
        super().__init__(f"{_NEW} {section}/{id}", "a schema that is known", "It is fetched; nothing is to be done.")
        self.section, self.id = section, id


def new_schema_in(text: str) -> NewSchemaError | None:
    """The unknown schema that a query ended with, if that is what it ended with."""
    found = _FOUND.search(text)
    return None if found is None else NewSchemaError(found[1], int(found[2]))


def decode_messages(file: PipelineFile, name: str, value: Any, parsed: Any) -> tuple[Any, Any]:
    """The object of a message, and what is wrong with it or null; `parsed` is the column that the object goes to."""
    source, decoded = file.section(name), read_decoded(file, name)
    if source["decode"] == "protobuf":
        fields = ",".join(f"`{column}`:{type_}" for column, type_ in decoded.columns.items())
        decode = Decoder(decoded.descriptors, decoded.message)
        # Not by Arrow, which would have instants in the zone of the machine.
        made = F.udf(decode.__call__, f"struct<{fields}>", useArrow=False)(value)
        fault = F.when(value.isNull(), "empty").when(parsed.isNull(), "does not fit the schema")
        return made, fault  # a message of zeros has no byte
    if source["registry"] is None:
        return _from_avro(value, decoded.written, decoded), _fault(value, [], _is_wrong(parsed))
    schemas, missing = WriterSchemas(file, name).known(), _missing(file, name)
    id = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint")
    record = F.substring(value, _HEADER + 1, 2**31 - 1)
    is_framed = (F.length(value) >= _HEADER) & (F.hex(F.substring(value, 1, 1)) == "00")
    # The first branch is never taken: it gives the others their type, also where no schema is known yet.
    made = F.when(F.lit(False), _from_avro(record, decoded.written, decoded)).when(~is_framed, F.lit(None))
    for known, schema in schemas.items():
        made = made.when(id == known, _from_avro(record, schema, decoded))
    if missing:
        made = made.when(id.isin(sorted(missing)), F.lit(None))
    message = F.concat(F.lit(f"{_NEW} {name}/"), id.cast("string"))
    made = F.when(value.isNotNull() & (F.length(value) > 0), made.otherwise(F.raise_error(message)))
    faults = [(~is_framed, F.lit("no id of a schema"))]
    if missing:
        unknown = F.concat(F.lit("schema "), id.cast("string"), F.lit(", which the registry does not have"))
        faults.append((id.isin(sorted(missing)), unknown))
    return made, _fault(value, faults, _is_wrong(parsed))


def _from_avro(value: Any, schema: str, decoded: Decoded) -> Any:
    from pyspark.sql.avro.functions import from_avro

    return from_avro(value, schema, {**_PERMISSIVE, "avroSchema": decoded.schema})


def _is_wrong(parsed: Any) -> Any:
    """Whether Spark made only nulls of a message."""
    return parsed.getField(DECODED).isNull()


def _fault(value: Any, more: list[tuple[Any, Any]], is_wrong: Any) -> Any:
    fault = F.when(value.isNull() | (F.length(value) == 0), "empty")
    for holds, words in more:
        fault = fault.when(holds, words)
    return fault.when(is_wrong, "does not fit the schema")


def _missing(file: PipelineFile, name: str) -> set[int]:
    """The ids that the registry does not have, as far as this process knows; later it may have them."""
    missing: dict[str, set[int]] = file.remembered.setdefault("missing schemas", {})
    return missing.setdefault(name, set())


class WriterSchemas:
    """The schemas that messages of a source were written with, by id; each is fetched once."""

    def __init__(self, file: PipelineFile, name: str) -> None:
        self._file, self._name = file, name
        self._place: Path = own_place(file, f"schemas/{name}")
        self._source = file.section(name)

    def known(self) -> dict[int, str]:
        """Those that were fetched; the first time, all of the topics' subjects."""
        # Earlier versions kept the schemas as they were fetched.
        found = {int(path.stem): path.read_text(encoding="utf-8") for path in self._place.glob("[0-9]*.avsc")}
        for path in self._place.glob("[0-9]*.json"):
            note = read_note(path, {"schema": str}, _FETCH)
            if note is not None:
                found[int(path.stem)] = note["schema"]
        if not found:
            registry = Registry(self._source["registry"])
            for subject in subjects_of(self._source):
                for id, schema in registry.schemas_of(subject).items():
                    found[id] = self._keep(id, schema)
        return dict(sorted(found.items()))

    def learn(self, id: int) -> bool:
        """Fetch a schema; returns whether the registry has it."""
        schema = Registry(self._source["registry"]).schema(id)
        if schema is None:
            _missing(self._file, self._name).add(id)
            return False
        self._keep(id, schema)
        return True

    def _keep(self, id: int, schema: str) -> str:
        try:
            read_record(schema)
        except FencepostError as error:
            got = f"schema {id} of {self._source['registry']}: {error.got}"
            raise FencepostError(got, error.expected, "Correct it in the registry.") from None
        make_folder(self._place)
        write_note(self._place / f"{id}.json", {"schema": schema})
        return schema
