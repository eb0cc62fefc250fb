"""What a newcomer runs first: ``tables`` are declared tables, ``samples`` their records, and ``template`` is a project.

``lakehouse init`` copies ``template``. The tables are used where the settings name them, as in this repository.
"""
