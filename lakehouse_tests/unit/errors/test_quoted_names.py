"""What deltalake, a store, the system, Kafka's client and a registry quote decides nothing, whatever a name spells."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from aiokafka import errors as of_kafka
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import LakehouseError, RegistryError, StoreUnreachableError, TableDamagedError
from lakehouse.errors.causes import causes_of
from lakehouse.errors.troubles import trouble_of
from lakehouse.kafka.connection_causes import chain_of, told_cause
from lakehouse.kafka.registry_client import Registry
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.registries import answering_registry
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.unit.errors.test_quoted_words import ANY, MADE, WORDS, over_connect

NAMES = [word.translate({ord("/"): "-", ord("["): "(", ord("]"): ")"}) for word in WORDS if len(word) < 60]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_no_cause_of_what_deltalake_says_of_its_table(name: str, tmp_path: Path) -> None:
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
def test_a_column_is_no_cause_of_what_deltalake_refuses(name: str, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1]}))
    with pytest.raises(Exception, match=".") as refused:
        write_deltalake(tmp_path / "t", pa.table({name: [name]}), mode="append")
    assert trouble_of(refused.value, ANY) is None


def test_a_place_in_a_store_is_no_cause_of_its_silence() -> None:
    with stores.closed() as root:
        uri = f"{root}/AccessDenied/ExpiredToken/403 Forbidden/No space left on device/t"
        with pytest.raises(StoreUnreachableError), log_failures(uri):
            DeltaTable(uri)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_system_is_known_by_its_number(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=".") as missing:
        (tmp_path / name / "t").read_text()
    assert trouble_of(missing.value, ANY) is None
    (tmp_path / name).write_text("")
    with pytest.raises(OSError, match=".") as below:
        list((tmp_path / name / "t").iterdir())
    assert trouble_of(below.value, ANY) is None


KAFKA = ["SaslAuthenticationFailed", "UnsupportedSaslMechanism", "IllegalSaslState", "CERTIFICATE_VERIFY_FAILED"]


@pytest.mark.parametrize("name", [*KAFKA, "certificate has expired", "alert bad_certificate", "certificate_required"])
@pytest.mark.parametrize("kind", [of_kafka.TopicAuthorizationFailedError, of_kafka.KafkaConnectionError, OSError])
def test_a_topic_is_no_reason_why_a_broker_cannot_be_spoken_to(kind: type[Exception], name: str) -> None:
    assert told_cause(chain_of([kind(f"Topic {name} is not there: {name}")])) is None
    chain = MADE["a topic"][0](name)
    assert told_cause(causes_of(over_connect(chain))) is None


@pytest.mark.parametrize("status", [200, 404, 422, 500])
def test_what_a_registry_says_decides_nothing(status: int) -> None:
    """Its status and its code do."""
    said = json.dumps({"error_code": 50001, "message": "\n".join(["Schema 40403 not found", "401", *WORDS])})
    answers = {"/schemas/ids/7": (status, said)}
    with answering_registry(answers) as (url, _):
        talk = Registry(Settings(registry_url=url, _env_file=None), patience=0)
        with pytest.raises(RegistryError) as told:
            talk.schema(7)
    assert type(told.value) is RegistryError
    assert isinstance(told.value, LakehouseError)
