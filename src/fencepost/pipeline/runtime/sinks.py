"""Where the answers of a pipeline go."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime.identity import own_place
from fencepost.pipeline.runtime.sources import plain_options
from fencepost.pipeline.runtime.webhook import Webhook
from fencepost.spark.plan.columns import quoted


def sink_writer(answers: Any, file: PipelineFile, webhook: Webhook | None) -> Any:
    """A stream writer that only needs a trigger and to be started."""
    sink = file.section("sink")
    format_ = sink["format"]
    if format_ == "kafka":
        writer = _messages(answers, sink).writeStream.format("kafka")
        writer = writer.option("kafka.bootstrap.servers", sink["servers"]).option("topic", sink["topic"])
    elif format_ == "webhook":
        assert webhook is not None, "it was made for this sink"
        writer = answers.writeStream.foreachBatch(webhook.take)
    elif format_ == "console":
        writer = answers.writeStream.format("console").option("truncate", "false")
    else:
        frame = _flat(answers) if format_ == "csv" else answers
        settings = {"header": "true"} if format_ == "csv" else {}
        writer = frame.writeStream.format(format_).option("path", str(file.resolved(sink["path"]))).options(**settings)
    writer = writer.options(**plain_options(sink.get("options", {})))
    if sink.get("checkpoint"):
        writer = writer.option("checkpointLocation", str(file.resolved(sink["checkpoint"])))
    return writer


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
    value = F.to_json(F.struct(*map(quoted, answers.columns)), {"ignoreNullFields": "false"}).alias("value")
    key = sink.get("key") or ("object" if "event_id" in answers.columns else None)
    return answers.select(*([quoted(key).cast("string").alias("key")] if key else []), value)


def _flat(answers: Any) -> Any:
    """Arrays and the like as JSON, since CSV has no place for them."""
    columns = []
    for name, type_ in answers.dtypes:
        nested = type_.startswith(("array", "map", "struct"))
        columns.append(F.to_json(quoted(name)).alias(name) if nested else quoted(name))
    return answers.select(*columns)
