"""Which settings of Spark and Kafka's clients a user may set, and the only list of those that rows depend on.

Values may be secret.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_SETTING_BY_PREFIX = {
    "bootstrap.servers": "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS",
    "security.protocol": "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL",
    "sasl.": "LAKEHOUSE_KAFKA_SASL_MECHANISM, LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD",
    "ssl.trust": "LAKEHOUSE_KAFKA_CA_FILE",
    "ssl.": "LAKEHOUSE_KAFKA_CA_FILE, LAKEHOUSE_KAFKA_CLIENT_CERTIFICATE_FILE and LAKEHOUSE_KAFKA_CLIENT_KEY_FILE",
}
_FIXED = {
    *("acks", "auto.offset.reset", "enable.auto.commit", "enable.idempotence", "group.id", "group.instance.id"),
    *("interceptor.classes", "isolation.level", "key.deserializer", "key.serializer", "transactional.id"),
    *("value.deserializer", "value.serializer"),
}
"""The rows of a table depend on these."""
_TIMES = {
    # with another zone, Delta also verifies every commit by rebuilding its state
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # not Spark's default, INT96, in which many readers take the year 9999 for 1816
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.databricks.delta.write.utcTimestampPartitionValues": "true",
}
_VALUES = {
    # a failed cast or an overflow is an error, never a NULL
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.legacy.sizeOfNull": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
_STATEMENTS = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.defaultCatalog": "spark_catalog",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # allow a character to be written as its number
    "spark.sql.parser.escapedStringLiterals": "false",
    # ${...} in a statement is text, never an environment variable
    "spark.sql.variable.substitute": "false",
}
_FILES = {
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    # auto-compaction would copy a batch's metadata into a second commit
    "spark.databricks.delta.autoCompact.enabled": "false",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    # if pruning leaves no target row, this rule drops the source of a MERGE before its rows are counted:
    # Delta then reports zero source rows
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
}
_PLANS = {
    # if compared rows hold maps, Spark derives filters endlessly: a first merge never ended
    "spark.sql.constraintPropagation.enabled": "false",
}
_REASONS = (
    (_TIMES, "the meaning of a time depends on it, and times are UTC everywhere"),
    (_VALUES, "stored values depend on it"),
    (_STATEMENTS, "the meaning of a statement depends on it"),
    (_FILES, "the rows of a table depend on it"),
    (_PLANS, "Spark may otherwise never finish planning a merge"),
)
EXACT: Mapping[str, str] = {name: value for settings, _ in _REASONS for name, value in settings.items()}
"""Settings of every lakehouse session; they override a server, another session and a file of defaults."""

DELTA: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings that must be set when Spark starts: no session can set them later."""

REDACTION = "spark.redaction.regex"
"""Spark's setting with a pattern of names: it hides the values of matching settings."""
TEXT_REDACTION = "spark.redaction.string.regex"
"""The setting with a user's pattern of text to hide."""
HIDDEN_TEXT = "spark.sql.redaction.string.regex"
"""Spark's setting with a pattern of text to hide in statements and plans; it defaults to the user's pattern."""
_SPARK_SECRETS = "(?i:secret|password|token|(access|account)[.]?key)"  # Spark's own default, and keys of accounts
_OPTION = r'value: "[^"\\]*+(?:\\.[^"\\]*+)*+"'  # an option of a read in the plan of a client
_JAVA_PROPERTY = re.compile(r"-D([^\s=]+)=")  # Spark shows a Java property under its own name
_SESSION_PREFIXES = ("spark.sql.", "spark.databricks.")
_HARMLESS_PREFIXES = (
    "spark.databricks.delta.optimize.maxThreads",
    "spark.databricks.delta.vacuum.parallelDelete.",
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.cache.",
    "spark.sql.catalog.",
    "spark.sql.catalogImplementation",
    "spark.sql.cbo.",
    "spark.sql.codegen.",
    "spark.sql.connect.",
    "spark.sql.debug.",
    "spark.sql.execution.arrow.max",
    "spark.sql.files.maxPartition",
    "spark.sql.files.minPartition",
    "spark.sql.files.openCostInBytes",
    "spark.sql.hive.",
    "spark.sql.inMemory",
    "spark.sql.join.",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.max",
    "spark.sql.optimizer.runtime",
    "spark.sql.parquet.compression.codec",
    "spark.sql.queryExecutionListeners",
    "spark.sql.redaction.",
    "spark.sql.shuffle",
    "spark.sql.sources.parallelPartitionDiscovery.",
    "spark.sql.statistics.",
    "spark.sql.streaming.",
    "spark.sql.thriftServer.",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir",
)
"""Prefixes of settings that only change how fast, how much at once or where Spark works."""
_REPLACEMENTS = {
    "spark.master": "LAKEHOUSE_SPARK_MASTER",
    "spark.remote": "LAKEHOUSE_SPARK_REMOTE",
    "spark.driver.memory": "LAKEHOUSE_SPARK_DRIVER_MEMORY",
    HIDDEN_TEXT: f"{TEXT_REDACTION}, which hides the same text",
}
_CONNECTION_PREFIXES = ("spark.connect.", "spark.lakehouse.", "spark.api.mode", "spark.plugins")


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of a JSON object, each value as the text that Kafka expects.

    Raises ``ValueError`` with a message that names the wrong property and shows no value.
    """
    return parse_object(text, _require_settable, '{"client.id": "lakehouse"}')


def parse_object(text: str, require: Callable[[str], None], example: str) -> dict[str, str]:
    """Return the entries of a JSON object, each value as text; ``require`` raises ``ValueError`` for a wrong name.

    Raises ``ValueError`` with a message that shows no value.
    """
    try:
        entries = json.loads(text, object_pairs_hook=_require_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not a JSON object, such as {example} ({error.msg} at character {error.pos})") from None
    if not isinstance(entries, Mapping):
        raise ValueError(f"it is not a JSON object, such as {example}")
    for name in entries:
        require(name)
    return {name: _format_value(name, value) for name, value in entries.items()}


def _require_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        duplicate_name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{duplicate_name} is listed more than once")
    return dict(pairs)


def _require_settable(name: str) -> None:
    lower_name = name.lower()
    if not _NAME.fullmatch(name) or lower_name.startswith("kafka."):
        raise ValueError(f"{name!r} is not the name of a Kafka property, such as client.id")
    if lower_name in _FIXED:
        raise ValueError(f"{name} is fixed, since the rows of a table depend on it; remove it")
    for prefix, setting in _SETTING_BY_PREFIX.items():
        if lower_name.startswith(prefix):
            raise ValueError(f"{name} cannot be set here: use {setting}")


def _format_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"the value of {name} must be text, a number, true or false")
    return str(value)


def parse_spark_conf(text: str) -> dict[str, str]:
    """Return the settings of a JSON object, each value as the text that Spark expects.

    Raises ``ValueError`` with a message that names the wrong setting and shows no value.
    """
    return parse_object(text, require_free_conf, '{"spark.sql.shuffle.partitions": 8}')


def require_free_conf(name: str) -> None:
    """Raise ``ValueError`` if a user may not set this: rows depend on it, or it is set in another way."""
    if not name.startswith("spark.") or name != name.strip() or " " in name:
        raise ValueError(f"{name!r} is not the name of a Spark setting, such as spark.sql.shuffle.partitions")
    if name in _REPLACEMENTS:
        raise ValueError(f"{name} cannot be set here: use {_REPLACEMENTS[name]}")
    if name.startswith(_CONNECTION_PREFIXES):
        raise ValueError(f"{name} is fixed, since the connection to a session depends on it; remove it")
    for settings, reason in (*_REASONS, (DELTA, "the tables are Delta tables")):
        if name in settings:
            raise ValueError(f"{name} is fixed, since {reason}; remove it")
    if affects_rows(name):
        raise ValueError(f"{name} is fixed, since rows may depend on it; remove it")


def redaction_pattern(conf: Mapping[str, str]) -> str:
    """The pattern with which Spark hides the values of these settings, and of those that it takes for secrets.

    Spark passes values on under shorter names, for example ``spark.hadoop.a.b`` to Hadoop as ``a.b``. So the pattern
    covers each suffix of a name, and Java properties. The user's own pattern comes last: it cannot disable the others.
    """
    name_parts = [name.split(".") for name in conf]
    shown_names = {".".join(parts[first:]) for parts in name_parts for first in range(1, len(parts))}
    java_options = [value for name, value in conf.items() if name.endswith("JavaOptions")]
    shown_names.update(name for text in java_options for name in _JAVA_PROPERTY.findall(re.sub(r"[\"'\\]", "", text)))
    exact_patterns = [f"^{re.escape(name)}$" for name in sorted(shown_names)]
    return join_patterns(_SPARK_SECRETS, *map(re.escape, conf), *exact_patterns, conf.get(REDACTION))


def text_redaction_pattern(pattern: str | None) -> str:
    """The pattern with which Spark hides the options of a read, such as passwords, and text of the user's pattern."""
    return join_patterns(_OPTION, pattern)


def join_patterns(*patterns: str | None) -> str:
    """The pattern that matches what any of these matches. Patterns of users come last: one may extend to the end."""
    return "|".join(filter(None, patterns))


def affects_rows(name: str) -> bool:
    """Whether rows may depend on this session setting: it is one of Spark or Delta and not known to be harmless."""
    return name.startswith(_SESSION_PREFIXES) and (
        name in EXACT or name in DELTA or not name.startswith(_HARMLESS_PREFIXES)
    )


def is_of_session(name: str) -> bool:
    """Whether a session can have its own value of this setting, on a Spark that another program started."""
    return name.startswith(_SESSION_PREFIXES)
