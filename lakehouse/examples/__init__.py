"""The examples: ``tables`` declares tables, ``samples`` generates their records, ``template`` is a new project.

``lakehouse init`` copies ``template``. ``tables`` is used if the settings name it, as they do in this repository.
"""
