"""A registry over TLS gets requests only if the authority of the settings signed its certificate."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.decoding.formats.format import RegisteredSchema
from lakehouse.errors import RegistryError
from lakehouse.kafka.registry_client import Registry
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.certificates import Authority
from lakehouse_tests.helpers.brokers.registries import RegistryRequest, answering_registry, schema_answer

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})
TOKEN = "t0ken"


@pytest.fixture(scope="module")
def signed_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Authority, str, list[RegistryRequest]]]:
    """An authority, the address of a registry with its certificate, and the requests to that registry."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    answers = {"/schemas/ids/1": schema_answer(SCHEMA)}
    with answering_registry(answers, certificate=authority.sign("127.0.0.1")) as (url, requests):
        yield authority, url, requests


@pytest.fixture
def set_up(signed_registry: tuple[Authority, str, list[RegistryRequest]], monkeypatch: pytest.MonkeyPatch) -> None:
    signed_registry[2].clear()
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", signed_registry[1])
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_TOKEN", TOKEN)


@pytest.mark.usefixtures("set_up")
def test_a_registry_with_a_certificate_of_the_authority_gets_requests(signed_registry, monkeypatch) -> None:
    authority, _, requests = signed_registry
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_CA_FILE", str(authority.file))
    assert Registry(Settings.load(), patience=0).schema(1) == RegisteredSchema(SCHEMA, (), "AVRO")
    assert [request.authorization for request in requests] == [f"Bearer {TOKEN}"]


@pytest.mark.usefixtures("set_up")
@pytest.mark.parametrize("configured", ["none", "another", "one of this machine"])
def test_a_registry_with_another_certificate_gets_no_request_and_the_error_names_the_setting(
    configured: str, signed_registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, url, requests = signed_registry
    if configured == "another":
        monkeypatch.setenv("LAKEHOUSE_REGISTRY_CA_FILE", str(Authority(tmp_path).file))
    if configured == "one of this machine":  # only the settings count, not the authorities of the machine
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.file))
    with pytest.raises(RegistryError, match="is not trusted") as raised:
        Registry(Settings.load()).schema(1)
    assert raised.value.where == url
    assert raised.value.action == "Set LAKEHOUSE_REGISTRY_CA_FILE to the authority that signed it."
    assert TOKEN not in str(raised.value)
    assert requests == [], "credentials are only sent to a trusted registry"
