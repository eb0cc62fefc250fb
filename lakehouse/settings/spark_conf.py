"""Which settings of Spark a person may set: the one list of those on which rows depend. Values may be secret."""

import re
from collections.abc import Mapping

from lakehouse.settings.properties import parse_object

_TIMES = {
    # another zone also makes Delta verify every commit by rebuilding its state
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # as other readers do: of an INT96, Spark's own choice, many take the year 9999 for 1816
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
    # a character may be written as its number
    "spark.sql.parser.escapedStringLiterals": "false",
    # ${...} in a statement is text, never a variable of the machine
    "spark.sql.variable.substitute": "false",
}
_FILES = {
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    # auto-compaction would copy a batch's metadata into a second commit
    "spark.databricks.delta.autoCompact.enabled": "false",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    # where no target row is left after pruning, this rule drops the source of a MERGE before its rows are
    # counted: Delta then says that it had none
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
}
_PLANS = {
    # from the comparison of rows that hold maps, Spark derives filters without end: a first merge never ended
    "spark.sql.constraintPropagation.enabled": "false",
}
_WHY = (
    (_TIMES, "what a time means depends on it, and times are UTC everywhere"),
    (_VALUES, "what is stored of a value depends on it"),
    (_STATEMENTS, "what a statement means depends on it"),
    (_FILES, "which rows a table holds depends on it"),
    (_PLANS, "whether Spark ever ends the planning of a merge depends on it"),
)
EXACT: Mapping[str, str] = {name: value for settings, _ in _WHY for name, value in settings.items()}
"""What every session of ours has set, whatever a server, another session or a file of defaults says."""

DELTA: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What has to be set where a Spark is started: no session can set it later."""

REDACTION = "spark.redaction.regex"
"""Spark's pattern of names whose values it shows nowhere."""
TEXT_REDACTION = "spark.redaction.string.regex"
"""A person's pattern of text that Spark shows nowhere."""
HIDDEN_TEXT = "spark.sql.redaction.string.regex"
"""Spark's pattern of what it shows of no statement and no plan; where it is not set, that of a person counts."""
_SECRETS = "(?i:secret|password|token|access[.]?key)"  # those of Spark itself
_OPTION = r'value: "[^"\\]*+(?:\\.[^"\\]*+)*+"'  # as a plan of a client is written
_OF_JAVA = re.compile(r"-D([^\s=]+)=")  # a property of Java, which Spark shows by its own name
_OF_ROWS = ("spark.sql.", "spark.databricks.")
_FREE = (
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
"""Beginnings of settings that tell how fast something is done, how much at once and where, and no more."""
_ELSEWHERE = {
    "spark.master": "LAKEHOUSE_SPARK_MASTER",
    "spark.remote": "LAKEHOUSE_SPARK_REMOTE",
    "spark.driver.memory": "LAKEHOUSE_SPARK_DRIVER_MEMORY",
    HIDDEN_TEXT: f"{TEXT_REDACTION}, which hides the same",
}
_OURS = ("spark.connect.", "spark.lakehouse.", "spark.api.mode", "spark.plugins")


def parse_spark_conf(text: str) -> dict[str, str]:
    """Return the settings that a JSON object names, each value as Spark writes it.

    Raises ``ValueError`` with a sentence that names the setting at fault and shows no value.
    """
    return parse_object(text, require_free_conf, '{"spark.sql.shuffle.partitions": 8}')


def require_free_conf(name: str) -> None:
    """Raise ``ValueError`` where a person may not set this, since rows depend on it or it is set in another way."""
    if not name.startswith("spark.") or name != name.strip() or " " in name:
        raise ValueError(f"{name!r} is no name of a Spark setting, such as spark.sql.shuffle.partitions")
    if name in _ELSEWHERE:
        raise ValueError(f"{name} has a setting of its own: use {_ELSEWHERE[name]}")
    if name.startswith(_OURS):
        raise ValueError(f"{name} is fixed, since how a session is reached depends on it; leave it out")
    for settings, why in _WHY:
        if name in settings:
            raise ValueError(f"{name} is fixed, since {why}; leave it out")
    if name in DELTA:
        raise ValueError(f"{name} is fixed, since tables are Delta's; leave it out")
    if is_of_rows(name):
        raise ValueError(f"{name} is fixed, since rows may depend on it; leave it out")


def hidden(given: Mapping[str, str]) -> str:
    """The pattern by which Spark shows the values of these settings nowhere, nor those that it takes for secrets.

    Spark hands values on under shorter names: ``spark.hadoop.a.b`` to Hadoop as ``a.b``, so that each end of a name is
    hidden, and so are properties of Java. What a person hides comes last: it cannot change what stands before it.
    """
    ends = {end for name in given for end in _shorter(name)}
    options = [value for name, value in given.items() if name.endswith("JavaOptions")]
    ends.update(name for text in options for name in _OF_JAVA.findall(re.sub(r"[\"'\\]", "", text)))
    shorter = [f"^{re.escape(end)}$" for end in sorted(ends)]
    return joined(_SECRETS, *map(re.escape, given), *shorter, given.get(REDACTION))


def _shorter(name: str) -> list[str]:
    """The ends of a name in parts: ``b.c`` and ``c`` of ``a.b.c``."""
    parts = name.split(".")
    return [".".join(parts[first:]) for first in range(1, len(parts))]


def hidden_text(given: str | None) -> str:
    """The pattern by which Spark shows no option of a read, such as a password, nor what is given."""
    return joined(_OPTION, given)


def joined(*patterns: str | None) -> str:
    """The pattern that finds what any of these does; the ones of others come last, since they may reach to the end."""
    return "|".join(filter(None, patterns))


def is_of_rows(name: str) -> bool:
    """Whether rows may depend on this setting of a session: it is Spark's or Delta's, and not known to be harmless."""
    return name.startswith(_OF_ROWS) and (name in EXACT or name in DELTA or not name.startswith(_FREE))


def is_of_session(name: str) -> bool:
    """Whether a session of its own may have this, on a Spark that somebody else started."""
    return name.startswith(_OF_ROWS)
