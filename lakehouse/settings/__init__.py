"""The settings: what a user sets in the environment, and the only code that reads the environment.

- ``environment``: the class ``Settings``. Add a setting as a field of it and as a line in docs/reference/settings.md.
- ``variables``: the names of the variables, and the file ``.env``.
- ``project``: the project file, ``[tool.lakehouse]`` in ``pyproject.toml``, and where a project of Dagster's command
  ``dg`` keeps its modules.
- ``shapes``: the types of the settings, which validate their values.
- ``properties``: which other properties of Kafka's clients a user may set.
- ``spark_conf``: which Spark settings a user may set, and which ones rows depend on.
- ``addresses``: the addresses of the broker and of the schema registry.
- ``store``: whether tables are on a local disk or in an object store.

Every layer above may import this package. It imports only ``lakehouse.errors`` from this project.
"""

from lakehouse.settings.environment import Settings

__all__ = ["Settings"]
