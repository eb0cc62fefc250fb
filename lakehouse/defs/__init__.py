"""The Dagster definitions of declared tables, built by plain functions from each ``StreamTable``.

``build`` combines all definitions, also as a component of ``dg``. ``specs`` holds a table and its place in Dagster's
catalog, and describes the assets of a declaration; ``assets`` builds them. Each asset is a step (``steps``): it starts,
explains errors and reports results in the same way, with the metadata of ``figures``. ``automation`` builds the merge
job and its sensor, which also reports commits that no run reported. The sensor uses ``waiting`` (records to merge, and
what it remembers of them) and ``runs`` (unfinished ones, and when to request a failed one again), with ``ended_runs``.
``checks`` builds the checks of whole tables with their job and schedule, ``maintenance_job`` the maintenance of tables,
and ``followers`` the assets of views and exports, with what requests them. ``freshness`` builds the checks of promises
and of what no batch can read. ``registration`` compares and registers tables in a catalog. ``alerts`` builds the
sensor that sends failures to a webhook. ``resources`` holds the one Spark session of a run, and ``warm_runs`` starts
its process. ``daemon`` is Dagster's daemon in ``lakehouse up``, in which sensors rest until a topic grows.

The work itself is in ``lakehouse.ingest``, ``lakehouse.derived`` and ``lakehouse.operations``. A new kind of asset is a
function in ``assets`` and one in ``specs``. Only this package and ``lakehouse.definitions`` import Dagster.
"""
