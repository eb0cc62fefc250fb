"""Code that tests share: streams and tables to inspect, brokers and workers to break, a model of the right results."""
