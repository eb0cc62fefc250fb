"""The Spark session of a process, and the warm Spark of a home.

``sessions`` gives the session, with the only Spark and Delta settings; ``own_spark`` starts a Spark and ends it,
``own_session`` makes a session of our own on one that runs. ``engine`` runs the warm Spark of a home and knows its
lock, its address and its token; ``engine_main`` is its process, ``heap`` says how full its memory is. ``connect``
attaches to an engine or another Spark Connect server, with a limit on each wait.

It knows settings and the processes of ``lakehouse.local``, and no tables.
"""
