"""Files as a source: one partition, in which the number of a file and a place in it are a position.

``listing`` lists a folder; ``folder`` numbers its files in a table, and compares the two. ``read`` gives the records of
numbered files to Spark. ``source`` joins them, and gives the newest records to a reader.
"""
