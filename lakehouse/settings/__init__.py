"""The settings: what a user sets in the environment, and the only code that reads the environment.

- ``environment``: the class ``Settings``. Add a setting as a field of it and as a line in docs/reference/settings.md.
- ``project``: the project file, ``[tool.lakehouse]`` in ``pyproject.toml``, where a project of Dagster's command ``dg``
  keeps its modules, and the names of the variables in its file ``.env``.
- ``shapes``: the types of the settings, which validate their values.
- ``spark_conf``: which settings of Spark and of Kafka's clients a user may set, and which ones rows depend on.
- ``addresses``: the addresses of the broker and of the schema registry.
- ``store``: whether tables are on a local disk or in an object store. ``store_access`` and ``azure_access``: the
  endpoint and the secrets of a store, in the words of each of its clients.

Every layer above may import this package. It imports only ``lakehouse.errors`` from this project.
"""

from lakehouse.settings.environment import Settings

__all__ = ["Settings"]
