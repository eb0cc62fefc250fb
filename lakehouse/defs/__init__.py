"""The Dagster definitions of declared tables, built by plain functions from each ``StreamTable``.

``build`` combines all definitions, and ``component`` does so in projects of ``dg``. ``catalog_entries`` holds a table
and its place in Dagster's catalog. ``specs`` describes the assets of a declaration, and ``assets`` builds them. Each
asset is a step (``steps``): it starts, explains errors and reports results in the same way. ``results`` builds the
results that a step reports, ``figures`` and ``picture`` their metadata. ``automation`` builds the merge job and its
sensor. The sensor uses ``waiting`` (records to merge), ``runs`` (unfinished ones, and when to request a failed one
again) and ``reported`` (commits that no run reported). ``checks`` builds the checks of whole tables with their job and
schedule, ``maintenance_job`` the maintenance of tables, and ``followers`` the assets of views and exports, with what
requests them. ``freshness`` builds the checks of promises and of what no batch can read, from what ``cursor``
remembers. ``alerts`` builds the sensor of alerts: it reads ``completions`` of runs and checks, decides what to send,
and ``webhook`` sends it. ``resources`` holds the one Spark session of a run.

The work itself is in ``lakehouse.ingest``, ``lakehouse.derived`` and ``lakehouse.operations``. A new kind of asset is a
function in ``assets`` and one in ``specs``. Only this package and ``lakehouse.definitions`` import Dagster.
"""
