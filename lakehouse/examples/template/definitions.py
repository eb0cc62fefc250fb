"""What Dagster is told: the declared tables, and whatever you add beside them."""

import dagster as dg

from lakehouse import build_defs

defs = dg.Definitions.merge(
    build_defs(),
    # assets of your own go here; all steps of a run are in one process, so that they share a Spark session
    dg.Definitions(assets=[], executor=dg.in_process_executor),
)
