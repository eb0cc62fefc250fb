"""Runs that start warm: Dagster's code server forks their process from one that has imported what every run needs.

Dagster itself starts a new Python for each run. Declarations are not imported beforehand: each run loads their files.
"""

import multiprocessing
from functools import cache
from multiprocessing import forkserver

from dagster._grpc.server import DagsterApiServer


@cache
def keep_runs_warm() -> None:
    """Start the process from which runs of this code server are forked, once. If it ends, the next run starts one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lakehouse.defs.build", "lakehouse.spark.connect", "dagster._grpc.impl"])
    # the only place that says how the server starts the process of a run
    DagsterApiServer._mp_ctx = property(lambda _: context, lambda *_: None)  # type: ignore[assignment]
    forkserver.ensure_running()
