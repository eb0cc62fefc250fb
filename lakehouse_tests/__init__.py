"""``unit``: neither broker nor Spark; ``real``: every invariant once on real parts; ``full``: all at full scale."""
