"""What Dagster loads for a project without its own definitions: those of all declared tables."""

import gc

import dagster as dg

from lakehouse.defs.build import build_defs

# also for runs of the Materialize button: all steps of a run share one process, and so one Spark session
defs = dg.Definitions.merge(build_defs(), dg.Definitions(executor=dg.in_process_executor))
gc.freeze()  # what is loaded stays: no search for garbage looks at it again, also not the last one of a run
