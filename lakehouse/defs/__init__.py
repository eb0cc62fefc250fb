"""What Dagster is told about the declared tables.

``specs`` describes the assets of a declaration, ``assets`` makes them, ``checks`` their checks,
``automation`` the job and the sensor, ``maintenance`` the asset, job and schedule that keep the tables in
shape; ``resources`` holds the one Spark session of a run. Each is made
by plain functions from a ``StreamTable``; what they do stands in ``ingest``, ``ledger`` and ``verify``.
"""
