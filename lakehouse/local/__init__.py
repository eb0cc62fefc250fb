"""The stack on one machine, as processes: Java, the jars and an embedded Kafka broker."""
