"""Generated records as a source: each exists once its time has passed.

``look`` says which records exist at a time. ``read`` computes them in Spark's workers, ``newest`` the last of them on
the driver. ``source`` joins them.
"""
