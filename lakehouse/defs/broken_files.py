"""Files of declarations that fail, in Dagster: their tables are missing, and those of the other files are merged.

An asset with a failed check shows them in the catalog, and a sensor whose ticks fail shows them among the automations.
Both are gone when the code location is loaded after the files are corrected.
"""

from functools import cache

import dagster as dg

from lakehouse.defs.results import check_result, report_if_changed
from lakehouse.errors import DeclarationError
from lakehouse.ledger.audit import Finding, finding

_KEY = dg.AssetKey(["lakehouse", "declarations"])
_CHECK = "every_file_loads"
_TICK_INTERVAL = 60  # seconds: a tick does nothing but fail


@cache
def build_broken_files(problems: tuple[str, ...]) -> dg.Definitions:
    """Build what shows that files fail, with these errors; the same objects for each part of a code location."""
    if not problems:
        return dg.Definitions()
    result = _finding(problems)
    spec = dg.AssetSpec(_KEY, description=f"Files of declarations. {result.detail}", group_name="declarations")

    @dg.asset_check(name=_CHECK, asset=_KEY, description="Each file of declarations can be loaded.")
    def check() -> dg.AssetCheckResult:
        return check_result(result, _KEY)

    @dg.sensor(
        name="lakehouse_declarations_sensor",
        minimum_interval_seconds=_TICK_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Fails while files of declarations fail. The tables of the other files are merged.",
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        report_if_changed(context.instance, result, _KEY)
        raise DeclarationError(result.detail)

    return dg.Definitions(assets=[dg.AssetsDefinition(specs=[spec])], asset_checks=[check], sensors=[evaluate])


def _finding(problems: tuple[str, ...]) -> Finding:
    advice = "Correct the files, then reload the code location."
    return finding(_CHECK, problems, "each file of declarations can be loaded", advice)
