"""A PostgreSQL server and Kafka Connect with Debezium's connector, as processes of the tests."""
