"""What Dagster loads where a project has no definitions of its own: those of all declared tables."""

import dagster as dg

from lakehouse.defs.build import build_defs

# also of what the Materialize button starts: all steps of a run share one process, and with it a Spark session
defs = dg.Definitions.merge(build_defs(), dg.Definitions(executor=dg.in_process_executor))
