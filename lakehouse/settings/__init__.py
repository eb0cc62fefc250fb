"""The settings: what a person may say in the environment, and the only reader of it.

``environment`` holds the class ``Settings``, ``variables`` the names of variables, ``project`` what a project says of
itself in its file, ``shapes`` what a setting may look like, ``properties`` which other properties of Kafka's clients a
person may set, ``spark_conf`` which settings of Spark, and which of them rows depend on, ``remote`` what the address of
a Spark Connect server says, ``broker_address`` and ``registry_address`` where those are that they lead to, ``store``
whether tables are on a local disk or in an object store. A setting is added as a field of the class and a line in
README.md. Every floor above may import this package; it imports ``lakehouse.errors`` and nothing else of ours.
"""

from lakehouse.settings.environment import Settings

__all__ = ["Settings"]
