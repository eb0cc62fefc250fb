"""Names in errors of deltalake, stores, the system, Kafka's client and registries never decide what the error means."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from aiokafka import errors as of_kafka
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import LakehouseError, RegistryError, StoreUnreachableError, TableDamagedError
from lakehouse.errors.causes import causes_of
from lakehouse.errors.troubles import find_trouble
from lakehouse.kafka.connection import chain_errors, match_cause
from lakehouse.kafka.registry_client import Registry
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.registries import answering_registry
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.unit.errors.test_quoted_words import ALL_TROUBLES, CHAINS, WORDS, over_connect

NAMES = [word.translate({ord("/"): "-", ord("["): "(", ord("]"): ")"}) for word in WORDS if len(word) < 60]


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_folder_does_not_change_an_error_of_deltalake(name: str, tmp_path: Path) -> None:
    uri = str(tmp_path / name / "t")
    for _ in range(3):
        write_deltalake(uri, pa.table({name: [1]}), mode="append")
    (tmp_path / name / "t" / "_delta_log" / f"{1:020}.json").write_text(name)
    with pytest.raises(TableDamagedError), log_failures(uri):
        DeltaTable(uri).file_uris()
    (tmp_path / name / "t" / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(TableDamagedError), log_failures(uri):
        DeltaTable(uri).file_uris()


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_column_does_not_change_an_error_of_deltalake(name: str, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1]}))
    with pytest.raises(Exception, match=".") as raised:
        write_deltalake(tmp_path / "t", pa.table({name: [name]}), mode="append")
    assert find_trouble(raised.value, ALL_TROUBLES) is None


def test_a_path_in_a_store_does_not_change_its_error() -> None:
    with stores.unreachable_store() as root:
        uri = f"{root}/AccessDenied/ExpiredToken/403 Forbidden/No space left on device/t"
        with pytest.raises(StoreUnreachableError), log_failures(uri):
            DeltaTable(uri)


@pytest.mark.parametrize("name", NAMES)
def test_an_error_of_the_system_is_recognised_by_its_number(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=".") as missing_error:
        (tmp_path / name / "t").read_text()
    assert find_trouble(missing_error.value, ALL_TROUBLES) is None
    (tmp_path / name).write_text("")
    with pytest.raises(OSError, match=".") as not_a_folder:
        list((tmp_path / name / "t").iterdir())
    assert find_trouble(not_a_folder.value, ALL_TROUBLES) is None


KAFKA_ERRORS = [
    *("SaslAuthenticationFailed", "UnsupportedSaslMechanism", "IllegalSaslState", "CERTIFICATE_VERIFY_FAILED"),
    *("certificate has expired", "alert bad_certificate", "certificate_required"),
]


@pytest.mark.parametrize("name", KAFKA_ERRORS)
@pytest.mark.parametrize("kind", [of_kafka.TopicAuthorizationFailedError, of_kafka.KafkaConnectionError, OSError])
def test_the_name_of_a_topic_does_not_explain_a_failed_connection(kind: type[Exception], name: str) -> None:
    assert match_cause(chain_errors([kind(f"Topic {name} is not there: {name}")])) is None
    chain = CHAINS["a topic"][0](name)
    assert match_cause(causes_of(over_connect(chain))) is None


@pytest.mark.parametrize("status", [200, 404, 422, 500])
def test_the_message_of_a_registry_does_not_decide(status: int) -> None:
    """Its status and its error code do."""
    body = json.dumps({"error_code": 50001, "message": "\n".join(["Schema 40403 not found", "401", *WORDS])})
    answers = {"/schemas/ids/7": (status, body)}
    with answering_registry(answers) as (url, _):
        registry = Registry(Settings(registry_url=url, _env_file=None), patience=0)
        with pytest.raises(RegistryError) as raised:
            registry.schema(7)
    assert type(raised.value) is RegistryError
    assert isinstance(raised.value, LakehouseError)
