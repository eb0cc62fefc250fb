"""The records that wait to be merged into a table, for the sensor and for a check that shows why planning fails.

An unavailable broker or topic recovers without help. Any other problem, such as a broker that refuses access, stops the
table until a person acts, and the table must not look idle. So the tick of the sensor fails, and a check of the merged
asset shows the reason until the problem is solved.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.results import check_result, report_if_changed
from lakehouse.errors import BrokerError, BrokerRefusedError, LakehouseError, TopicError
from lakehouse.ingest.gaps import plan_table
from lakehouse.ingest.start import with_start
from lakehouse.kafka import TopicState, read_topic
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import Plan
from lakehouse.settings import Settings
from lakehouse.storage.table_context import merged_ledger

CHECK = "batch_can_be_planned"
_LOOK_LIMIT = 3.0  # seconds for the broker; a tick ends within five seconds, even if the broker does not answer
_DOC = (
    "The next batch can be planned: the settings are valid, the history of the table records its progress, and the"
    " topic still has every record after it. If the check fails, merging stops until you act; the result says what to"
    " do. It only warns if the broker or the topic is unavailable. The sensor also reports this check whenever its"
    " result changes."
)
_STATEMENT = "settings, table and topic fit together, and no record was lost before it was merged"


def is_unavailable(error: Exception) -> bool:
    """Whether an error only means that the broker or the topic is unavailable now."""
    return isinstance(error, (BrokerError, TopicError)) and not isinstance(error, BrokerRefusedError)


def plan_waiting_records(settings: Settings, table: StreamTable, limit: float = _LOOK_LIMIT) -> tuple[TopicState, Plan]:
    """Read the state of the topic within ``limit`` seconds, and plan one merge of all waiting records, without a JVM.

    Raises an error for which ``is_unavailable`` is true if the broker or the topic is unavailable. Any other error
    requires a person to act.
    """
    # Read the progress first: otherwise a run that commits in between would seem to be ahead of the topic.
    ledger = merged_ledger(settings, table)
    state = with_start(settings, table, ledger, read_topic(settings, table.topic, limit), limit)
    return state, plan_table(table, state, ledger, Bounds())


@contextmanager
def report_planning(instance: dg.DagsterInstance, entry: CatalogEntry) -> Iterator[None]:
    """Report to the planning check whether the code inside succeeds, if the result changed; errors propagate.

    Reports at once, because a failed tick loses its events. An unavailable broker or topic is not reported: it says
    nothing about the table.
    """
    try:
        yield
    except Exception as error:
        if not is_unavailable(error):
            report_if_changed(instance, _failure(error), entry.merged_key)
        raise
    report_if_changed(instance, finding(CHECK, [], _STATEMENT), entry.merged_key)


def planning_check(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """The same check on request in the UI. It warns if the broker or the topic is unavailable."""
    key = entry.merged_key

    @dg.asset_check(name=CHECK, asset=key, description=entry.check_doc(CHECK, _DOC))
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        try:
            plan_waiting_records(lakehouse.settings, entry.table)
        except LakehouseError as error:
            return check_result(_failure(error), key, is_warning=is_unavailable(error))
        return check_result(finding(CHECK, [], _STATEMENT), key)

    return check


def _failure(error: Exception) -> Finding:
    has_advice = isinstance(error, LakehouseError)
    return Finding(CHECK, passed=False, detail=str(error) if has_advice else f"{type(error).__name__}: {error}")
