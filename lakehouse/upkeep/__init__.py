"""What keeps tables in shape and shows how they stand.

``maintain`` compacts and vacuums, ``repair`` records what a person decides where records or the history are gone,
``status`` tells how far a table is, ``verify`` checks the data itself. A new verb that looks at tables, or looks
after them, goes here; ``lakehouse.cli`` and ``lakehouse.defs`` call it.
"""
