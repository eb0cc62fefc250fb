"""What Dagster is told about the declared tables, made by plain functions from a ``StreamTable``.

``build`` puts it all together; ``catalog_entries`` are a table and its place in the catalog. ``specs`` describes the
assets of a declaration; ``assets`` makes them, each a ``steps`` that begins, explains and reports alike; ``results`` is
what a step tells, ``config`` what it may be told. ``automation`` has the job and the sensor: ``waiting`` what there is
to merge, ``runs`` which runs are at it, ``retries`` when a failed one is asked for again, ``reported`` what was written
without one. ``checks`` are those of whole tables, with their job and schedule, ``maintenance_job`` keeps tables in
shape, ``resources`` holds the one Spark session of a run.

What they do stands in ``lakehouse.ingest``, ``lakehouse.derived`` and ``lakehouse.operations``. A new kind of asset is
a function in ``assets`` and one in ``specs``. Only this package and ``lakehouse.definitions`` know Dagster.
"""
