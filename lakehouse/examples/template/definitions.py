"""The Dagster definitions of this project: the declared tables, and any assets that you add."""

import dagster as dg

from lakehouse import build_defs

defs = dg.Definitions.merge(
    build_defs(),
    # Add your own assets here. All steps of a run execute in one process, so that they share one Spark session.
    dg.Definitions(assets=[], executor=dg.in_process_executor),
)
