"""Where the answers of a pipeline go.

An only sink is Spark's own, or a webhook. Several sinks share one query: each micro-batch is computed once, and goes to
one sink after the other. Every sink notes the last micro-batch that it has. So one that is repeated after a restart
goes only to the sinks that did not note it: files and spools then have it once, Kafka may have it twice.
"""

import secrets
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost._files.whole import make_folder, move_durably, read_note, write_note
from fencepost._text import printable
from fencepost.pipeline.file.document import PipelineFile, sink_name
from fencepost.pipeline.file.keys import SINKS
from fencepost.pipeline.runtime.formats import AnyWriter, plain_options, unfinished_batch
from fencepost.pipeline.runtime.identity import own_place
from fencepost.pipeline.runtime.webhook import Webhook, consume
from fencepost.spark.plan.columns import quoted

IsEmpty = Callable[[Path], bool]
_FILES = ("orc", "text")
"""Formats beside those of `SINKS` that write files."""
_RESTORE = (
    'Restore it from a backup, or write {"batch": N, "stem": "S"} into it: N is the last micro-batch that the sink '
    "has, and its files are named part-S-N-..."
)


def make_webhooks(file: PipelineFile) -> dict[str, Webhook]:
    """The webhooks of a pipeline by section, with a spool for each."""
    places = {
        section: own_place(file, "deliveries" if section == "sink" else f"sinks/{sink_name(file, section)}/deliveries")
        for section, sink in file.sinks.items()
        if sink["format"] == "webhook"
    }
    return {section: Webhook(file, section, place) for section, place in places.items()}


def sink_writer(answers: Any, file: PipelineFile, webhooks: Mapping[str, Webhook]) -> Any:
    """A stream writer that only needs a trigger and to be started."""
    if file.section("sink").get("format", "webhook") not in SINKS:
        chosen = _chosen(answers, file.section("sink"))
        return AnyWriter(_as_text(chosen) if file.section("sink")["format"] == "text" else chosen, file, _flat)
    if "sink" in file.sinks:
        writer = _only_sink(answers, file, webhooks)
    else:
        writer = answers.writeStream.foreachBatch(SeveralSinks(file, webhooks).take)
    if file.checkpoint:
        writer = writer.option("checkpointLocation", str(file.resolved(file.checkpoint)))
    return writer


def _only_sink(answers: Any, file: PipelineFile, webhooks: Mapping[str, Webhook]) -> Any:
    sink = file.section("sink")
    answers = _chosen(answers, sink)
    if sink["format"] == "webhook":
        return answers.writeStream.foreachBatch(webhooks["sink"].take)
    frame, options = _as_written(answers, file, sink)
    return frame.writeStream.format(sink["format"]).options(**options)


class SeveralSinks:
    """Gives each micro-batch to every sink. All of it is computed once, in one job if that can be."""

    def __init__(self, file: PipelineFile, webhooks: Mapping[str, Webhook]) -> None:
        self._webhooks = [(webhook, file.section(section).get("where")) for section, webhook in webhooks.items()]
        self._sinks = [_SinkOfSeveral(file, section) for section in file.sinks if section not in webhooks]

    def take(self, frame: Any, batch: int) -> None:
        """Write a micro-batch to the sinks that do not have it: for foreachBatch."""
        webhooks = [(webhook, where) for webhook, where in self._webhooks if not webhook.spool.has_batch(batch)]
        lacking = [sink for sink in self._sinks if not sink.has_batch(batch)]
        for webhook, where in webhooks:
            frame = webhook.spooled(frame, where)
        is_whole = any(sink.takes_all(frame) for sink in lacking)
        is_kept = sum(1 + sink.looks_first for sink in lacking) + (not is_whole) > 1
        if is_kept:
            frame.persist()
        try:
            if not is_whole:  # operators must remember, and webhooks have, what no sink asks for
                consume(frame)
            for sink in lacking:
                sink.take(frame, batch)
        finally:
            if is_kept:
                frame.unpersist()
        for webhook, _ in webhooks:
            webhook.commit(batch)


class _SinkOfSeveral:
    """One of several sinks: writes micro-batches, and notes the last one that had something for it."""

    def __init__(self, file: PipelineFile, section: str) -> None:
        self._file, self._sink = file, file.section(section)
        self._note = own_place(file, f"sinks/{sink_name(file, section)}") / "last.json"
        noted = read_note(self._note, {"batch": int}, _RESTORE) or {}
        self._last: int = noted.get("batch", -1)
        # Names of files tell which checkpoint they come from: another one counts from 0 again.
        self._stem: str = noted.get("stem") or secrets.token_hex(4)
        self._begun = unfinished_batch(own_place(file).parent)
        self._section = section
        self._is_first = True
        self._writes_files = self._sink["format"] in {*SINKS, *_FILES} and bool(self._sink.get("path"))
        self.looks_first = not self._writes_files and self._sink["format"] != "kafka"
        """Whether a micro-batch without answers would leave something, so that it asks for them before it writes."""
        self._never_holds: bool | None = None
        """Whether Spark knows without a look at answers that the condition holds for none; None before the first."""

    def takes_all(self, frame: Any) -> bool:
        """Whether Spark computes all of a micro-batch where it goes to this sink."""
        if self._sink["format"] == "console":  # shows the first rows and asks for no others
            return False
        if self._never_holds is None:
            plan = _chosen(frame, self._sink)._jdf.queryExecution().optimizedPlan() if self._sink.get("where") else None
            self._never_holds = plan is not None and plan.nodeName() == "LocalRelation"
        return not self._never_holds

    def has_batch(self, batch: int) -> bool:
        """Whether it was written, now or before a restart."""
        return batch <= self._last

    def take(self, frame: Any, batch: int) -> None:
        """Write a micro-batch, and note it."""
        chosen = _chosen(frame, self._sink)
        if self._is_first and self._last < 0:
            self._write_note(-1)  # the stem must be known before the first file
        if self._is_first and self._sink.get("path"):
            self._remove_undone(self._file.resolved(self._sink["path"]), batch)
        self._is_first = False
        if self.looks_first and chosen.isEmpty():
            return
        if self._sink["format"] not in {*SINKS, *_FILES}:
            AnyWriter(chosen, self._file, _flat, self._section).append(chosen, again=batch == self._begun)
        else:
            written, options = _as_written(chosen, self._file, self._sink)
            writer = written.write.format(self._sink["format"]).options(**options)
            if not self._writes_files:
                writer.mode("append").save()
            else:
                is_empty = partial(_has_no_row, like=written, format_=self._sink["format"], options=options)
                if not self._write_files(writer, self._file.resolved(self._sink["path"]), batch, is_empty):
                    return
        self._write_note(batch)

    def _remove_undone(self, target: Path, batch: int) -> None:
        """Remove files of this micro-batch and later ones: what was written after a backup that was restored.

        The same rows come again, perhaps cut into other micro-batches.
        """
        for old in target.glob(f"part-{self._stem}-*"):
            if int(old.name.split("-")[2]) >= batch:
                old.unlink()

    def _write_files(self, writer: Any, target: Path, batch: int, is_empty: IsEmpty = lambda _: False) -> bool:
        """Files whose names are those of the micro-batch, in place of what an earlier attempt left; whether any.

        Spark syncs nothing. The note that comes next is synced, and must not outlive the files it is about.
        """
        draft = target / f"_draft-{self._stem}"
        make_folder(target)
        writer.mode("overwrite").save(str(draft))
        for old in target.glob(f"part-{self._stem}-{batch:010}-*"):
            old.unlink()
        written = sorted(draft.glob("part-*"))
        if len(written) == 1 and is_empty(written[0]):  # Spark makes a file also where there is no row
            written = []
        name = f"part-{self._stem}-{batch:010}"
        numbered = enumerate(written)
        move_durably({file: target / f"{name}-{number:05}{''.join(file.suffixes)}" for number, file in numbered})
        shutil.rmtree(draft)
        return bool(written)

    def _write_note(self, batch: int) -> None:
        make_folder(self._note.parent)
        write_note(self._note, {"batch": batch, "stem": self._stem})
        self._last = batch


def _has_no_row(file: Path, like: Any, format_: str, options: Mapping[str, str]) -> bool:
    """Whether a file that Spark has written is one of no rows, which has a header at most."""
    if format_ == "parquet":
        import pyarrow.parquet as pq

        return bool(pq.read_metadata(file).num_rows == 0)
    if not file.stat().st_size:
        return True
    reader = like.sparkSession.read.format(format_).options(**options).schema(like.schema)
    return bool(reader.load(str(file)).isEmpty())


def _chosen(answers: Any, sink: Mapping[str, Any]) -> Any:
    return answers.where(F.expr(sink["where"])) if sink.get("where") else answers


def _as_written(answers: Any, file: PipelineFile, sink: dict[str, Any]) -> tuple[Any, dict[str, str]]:
    """The frame that a format of Spark's can write, and the options for it."""
    options: dict[str, str] = {}
    match sink["format"]:
        case "kafka":
            answers = _messages(answers, sink)
            options = {"kafka.bootstrap.servers": sink["servers"], "topic": sink["topic"]}
        case "console":
            answers, options = printable_frame(answers), {"truncate": "false"}
        case "csv":
            answers, options = _flat(answers), {"header": "true"}
        case "text":
            answers = _as_text(answers)
    if sink.get("path") and "sink" in file.sinks:
        options["path"] = file.located(sink["path"])
    return answers, options | plain_options(sink.get("options", {}))


def dead_letter_writer(dead: Any, file: PipelineFile, name: str) -> Any:
    """The same for the rows that a source could not use; None where nobody asked for them."""
    source = file.sections[name]
    if source.get("dead_letters_topic"):
        headers = [
            F.struct(F.lit(key).alias("key"), F.encode(key, "UTF-8").alias("value")) for key in ("fault", "origin")
        ]
        messages = dead.select("key", F.col("raw").alias("value"), F.array(*headers).alias("headers"))
        writer = messages.writeStream.format("kafka").option("kafka.bootstrap.servers", source["servers"])
        writer = writer.option("topic", source["dead_letters_topic"]).option("includeHeaders", "true")
    elif source.get("dead_letters"):
        letters = dead.select("origin", "fault", "value")
        writer = letters.writeStream.format("json").option("path", str(file.resolved(source["dead_letters"])))
    else:
        return None
    return writer.option("checkpointLocation", str(own_place(file, f"dead_letters/{name}")))


def _messages(answers: Any, sink: dict[str, Any]) -> Any:
    """Key and value of each message."""
    key = sink.get("key") or ("object" if "event_id" in answers.columns else None)
    return answers.select(*([quoted(key).cast("string").alias("key")] if key else []), _json(answers))


def _as_text(answers: Any) -> Any:
    """An object per line."""
    return answers.select(_json(answers))


def _json(answers: Any) -> Any:
    return F.to_json(F.struct(*map(quoted, answers.columns)), {"ignoreNullFields": "false"}).alias("value")


def printable_frame(answers: Any) -> Any:
    """A frame of which nothing steers a terminal, as `printable` spells texts out: Spark prints them as they are."""
    columns = []
    for name, type_ in answers.dtypes:
        column = quoted(name)
        if type_.split("(")[0] not in _WITHOUT_TEXT:  # lists and the like are shown as texts
            column = _printable(column.cast("string"))
        columns.append(column.alias(printable(name)))
    return answers.select(*columns)


_WITHOUT_TEXT = {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date", "timestamp"}
_WITHOUT_TEXT |= {"timestamp_ntz", "binary"}
_UNPRINTABLE = r"[\p{C}\p{Zl}\p{Zp}\p{Zs}&&[^ ]]"
"""What `str.isprintable` is false for."""
_FORMS = (("x", 2), ("u", 4), ("U", 8))


def _printable(text: Any) -> Any:
    def spell(each: Any) -> Any:
        code = F.ascii(each)
        forms = [F.concat(F.lit(f"\\{mark}"), F.lpad(F.lower(F.hex(code)), digits, "0")) for mark, digits in _FORMS]
        form = F.when(each == "\t", r"\t").when(each == "\n", r"\n").when(each == "\r", r"\r")
        form = form.when(code < 2**8, forms[0]).when(code < 2**16, forms[1]).otherwise(forms[2])
        return F.when(each.rlike(_UNPRINTABLE), form).otherwise(each)

    spelled = F.array_join(F.transform(F.split(text, ""), spell), "")
    return F.when(text.rlike(_UNPRINTABLE), spelled).otherwise(text)


def _flat(answers: Any) -> Any:
    """Arrays and the like as JSON, since CSV and most databases have no place for them."""
    columns = []
    for name, type_ in answers.dtypes:
        nested = type_.startswith(("array", "map", "struct"))
        columns.append(F.to_json(quoted(name)).alias(name) if nested else quoted(name))
    return answers.select(*columns)
