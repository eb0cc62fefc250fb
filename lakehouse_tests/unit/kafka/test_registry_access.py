"""Access to a schema registry: its address, and its credentials, which only the registry gets."""

from pathlib import Path

import pytest

from lakehouse.errors import RegistryError, SettingsError
from lakehouse.kafka.registry_client import Registry
from lakehouse.local.servers import running_registry
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.registries import RECORD, answering_registry, schema_answer, settings_of


@pytest.mark.parametrize("secret", ["t0ken\n", " t0ken", "t0\nken"])
def test_a_secret_with_white_space_is_refused_and_not_shown(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "PASSWORD"):
        with monkeypatch.context() as patch:
            patch.setenv(f"LAKEHOUSE_REGISTRY_{name}", secret)
            with pytest.raises(SettingsError, match=f"REGISTRY_{name}") as raised:
                Settings.load()
        assert "t0" not in str(raised.value)


def test_a_password_may_have_any_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering_registry({"/schemas/ids/1": schema_answer(RECORD)}) as (url, requests):
        Registry(settings_of(url, registry_username="\u0141", registry_password="\u0142")).schema(1)
    assert requests[0].authorization == "Basic xYE6xYI="


def test_an_external_broker_has_no_embedded_registry(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers="broker:9092")
    with pytest.raises(RegistryError, match="LAKEHOUSE_REGISTRY_URL"):
        Registry(settings)
    with pytest.raises(RegistryError, match="LAKEHOUSE_REGISTRY_URL"), running_registry(settings):
        pass


@pytest.mark.parametrize(
    ("secrets", "header"),
    [
        ({"registry_username": "ann", "registry_password": "s3cret"}, "Basic YW5uOnMzY3JldA=="),
        ({"registry_token": "t0ken"}, "Bearer t0ken"),
        ({}, None),
    ],
)
def test_only_the_registry_gets_the_credentials(secrets: dict[str, str], header: str | None) -> None:
    with answering_registry({"/schemas/ids/1": (403, "Forbidden")}) as (url, requests):
        settings = settings_of(url, **secrets)
        with pytest.raises(RegistryError) as raised:
            Registry(settings).schema(1)
    assert requests[0].authorization == header
    shown_text = f"{raised.value} {settings!r}"
    assert not [secret for secret in ("s3cret", "t0ken") if secret in shown_text]


@pytest.mark.parametrize(
    "url", ["registry:8081", "ftp://r", "http://", "http://ann:secret@r", "http://r/?key=1", "http://r/a b"]
)
def test_an_invalid_address_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", url)
    with pytest.raises(SettingsError, match="LAKEHOUSE_REGISTRY_URL") as raised:
        Settings.load()
    assert "secret" not in str(raised.value)
