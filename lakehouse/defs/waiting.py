"""What waits to be merged into a table, or why it cannot be told: for the sensor, and for a check that shows it.

A broker or a topic that is not there passes by itself. Anything else, also a broker that refuses us, stops the table
until somebody acts, and must not look idle: the tick fails, and the check of the merged asset says why until
it is cured.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.results import checked
from lakehouse.errors import BrokerError, BrokerRefusedError, LakehouseError, TopicError
from lakehouse.ingest.gaps import plan_table
from lakehouse.kafka import TopicState, look
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.positions import Bounds, Plan
from lakehouse.settings import Settings
from lakehouse.storage.table_context import merged_ledger

CHECK = "batch_can_be_planned"
_LOOK_LIMIT = 3.0  # seconds for the broker; a tick ends within five, whatever the broker does
_FACT = "settings, table and topic fit, and no record is gone before it was merged"


def is_away(error: Exception) -> bool:
    """Whether a look failed only since the broker or the topic is not there now."""
    return isinstance(error, (BrokerError, TopicError)) and not isinstance(error, BrokerRefusedError)


def look_ahead(settings: Settings, table: StreamTable, limit: float = _LOOK_LIMIT) -> tuple[TopicState, Plan]:
    """Look at the topic, for so many seconds at most, and plan all that waits in one; without a JVM.

    Raises an error that ``is_away`` where broker or topic are not there, any other where a person has to act.
    """
    # progress first: a run that commits in between must not seem to be ahead of the topic
    ledger = merged_ledger(settings, table)
    state = look(settings, table.topic, limit)
    return state, plan_table(table, state, ledger, Bounds())


@contextmanager
def alarming(instance: dg.DagsterInstance, listed: Listed) -> Iterator[None]:
    """Report the block to the check of the table where the answer changed; errors go on.

    At once, and not with the tick: a tick that fails loses its events. That something is away says nothing of the
    table. Words with a figure may differ from tick to tick (offsets, ids of requests): alone they are no new answer.
    """
    try:
        yield
    except Exception as error:
        if not is_away(error):
            _report(instance, listed, _failed(error))
        raise
    _report(instance, listed, finding(CHECK, [], _FACT))


def planning_check(listed: Listed) -> dg.AssetChecksDefinition:
    """The same question, for who asks it in the UI; where broker or topic are not there, a warning."""
    key = listed.merged

    @dg.asset_check(
        name=CHECK,
        asset=key,
        description="The next batch can be planned: the settings can be used, the history of the table tells its "
        "progress, and the topic still has every record behind it. The sensor reports it when it changes.",
    )
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        try:
            look_ahead(lakehouse.settings, listed.table)
        except LakehouseError as error:
            return checked(_failed(error), key, doubtful=is_away(error))
        return checked(finding(CHECK, [], _FACT), key)

    return check


def _failed(error: Exception) -> Finding:
    known = isinstance(error, LakehouseError)
    return Finding(CHECK, passed=False, detail=str(error) if known else f"{type(error).__name__}: {error}")


def _report(instance: dg.DagsterInstance, listed: Listed, found: Finding) -> None:
    key = dg.AssetCheckKey(listed.merged, CHECK)
    record = instance.get_latest_asset_check_evaluation_record(key)
    known: object = record.evaluation if record else None
    # while a run is to evaluate the check, the newest is only planned
    told = (known.passed, _fixed(known.description or "")) if isinstance(known, dg.AssetCheckEvaluation) else None
    if told != (found.passed, _fixed(found.detail)):
        evaluation = dg.AssetCheckEvaluation(key.asset_key, CHECK, found.passed, description=found.detail)
        instance.report_runless_asset_event(evaluation)


def _fixed(text: str) -> str:
    """A text without its words that hold a figure."""
    return re.sub(r"\w*\d\w*", "", text)
