"""Files as a source: one partition, in which the number of a file and a place in it are a position.

``listing`` lists a folder, ``file_log`` numbers its files in a table, ``folder`` compares the two. ``left_out`` warns
of what cannot be read. ``read`` gives the records of numbered files to Spark, ``newest`` those of the newest files to a
reader. ``source`` joins them.
"""
