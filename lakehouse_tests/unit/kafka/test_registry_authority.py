"""A registry over TLS is asked where the authority of the settings signed it, and nowhere else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.decoding.formats.format import RegisteredSchema
from lakehouse.errors import RegistryError
from lakehouse.kafka.registry_client import Registry
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.certificates import Authority
from lakehouse_tests.helpers.brokers.registries import Asked, answering_registry, schema_answer

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})
TOKEN = "t0ken"


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Authority, str, list[Asked]]]:
    """An authority, the address of a registry that it signed, and what it was asked."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    answers = {"/schemas/ids/1": schema_answer(SCHEMA)}
    with answering_registry(answers, certificate=authority.sign("127.0.0.1")) as (url, asked):
        yield authority, url, asked


@pytest.fixture
def set_up(signed: tuple[Authority, str, list[Asked]], monkeypatch: pytest.MonkeyPatch) -> None:
    signed[2].clear()
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", signed[1])
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_TOKEN", TOKEN)


@pytest.mark.usefixtures("set_up")
def test_a_registry_that_the_authority_of_the_settings_signed_is_asked(signed, monkeypatch) -> None:
    authority, _, asked = signed
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_CA_FILE", str(authority.file))
    assert Registry(Settings.load(), patience=0).schema(1) == RegisteredSchema(SCHEMA, (), "AVRO")
    assert [each.authorization for each in asked] == [f"Bearer {TOKEN}"]


@pytest.mark.usefixtures("set_up")
@pytest.mark.parametrize("named", ["none", "another", "one of this machine"])
def test_a_registry_that_another_authority_signed_is_not_asked_and_the_error_names_the_setting(
    named: str, signed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, url, asked = signed
    if named == "another":
        monkeypatch.setenv("LAKEHOUSE_REGISTRY_CA_FILE", str(Authority(tmp_path).file))
    if named == "one of this machine":  # settings count, not what the machine trusts besides
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.file))
    with pytest.raises(RegistryError, match="is not trusted") as raised:
        Registry(Settings.load()).schema(1)
    assert raised.value.where == url
    assert raised.value.action == "Set LAKEHOUSE_REGISTRY_CA_FILE to the authority that signed it."
    assert TOKEN not in str(raised.value)
    assert asked == [], "who we are is told to nobody whom we do not trust"
