"""A broker that refuses a connection differs from one that is down: waiting does not help, a setting must change."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    BrokerNotAvailableError,
    ClusterAuthorizationFailedError,
    KafkaError,
    LeaderNotAvailableError,
    TopicAuthorizationFailedError,
)

from lakehouse.cli.doctor import examine_topic
from lakehouse.cli.following import _Follower
from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import BrokerError, BrokerRefusedError
from lakehouse.kafka import metadata
from lakehouse.kafka.connection import ask
from lakehouse.settings import Settings
from lakehouse_tests.helpers.sensors import World


def with_encryption(settings: Settings) -> Settings:
    """The same broker, addressed with TLS on a port without TLS."""
    return settings.model_copy(update={"kafka_security_protocol": "SSL"})


@pytest.mark.invariant("12.3")
def test_a_wrong_protocol_fails_the_tick_and_the_check_until_it_is_corrected(world: World) -> None:
    correct_resource = world.resources["lakehouse"]
    world.resources["lakehouse"] = LakehouseResource.with_settings(with_encryption(world.settings))
    message = world.fails(BrokerRefusedError)
    assert "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL" in message
    assert world.evaluations == [(False, message)]
    world.resources["lakehouse"] = correct_resource
    world.tick()
    assert [has_passed for has_passed, _ in world.evaluations] == [False, True]


@pytest.mark.invariant("12.3")
def test_follow_does_not_wait_for_a_broker_that_starts_to_refuse_it(world: World) -> None:
    context: Any = SimpleNamespace(settings=world.settings, table=world.table)

    class Follower(_Follower):
        def _merge(self) -> None:
            context.settings = with_encryption(world.settings)
            super()._merge()

    with pytest.raises(BrokerRefusedError):
        Follower(context, None).follow(30.0)


@pytest.mark.invariant("9.3", "12.3")
def test_a_topic_without_an_id_fails_the_tick_and_doctor_before_the_first_merge(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_id = metadata._text(bytes(16))
    monkeypatch.setattr(metadata, "_text", lambda _: zero_id)
    message = world.fails(BrokerRefusedError)
    assert "reports no id of the topic" in message
    assert world.evaluations == [(False, message)]
    part = examine_topic(world.settings, world.table, [world.table.topic])
    assert (part.state, part.detail) == ("broken", message)
    assert not Path(world.settings.table_uri(world.table.name)).exists()


@pytest.mark.invariant("12.3")
@pytest.mark.parametrize("error", [TopicAuthorizationFailedError, ClusterAuthorizationFailedError])
def test_a_missing_permission_is_a_refusal_with_the_advice_to_grant_it(world: World, error: type[KafkaError]) -> None:
    with pytest.raises(BrokerRefusedError, match="AuthorizationFailed") as refusal:
        ask(world.settings, 3.0, ask_and_raise(error))
    assert "runs" not in refusal.value.action
    assert "Grant the right" in refusal.value.action


@pytest.mark.invariant("12.3")
@pytest.mark.parametrize("error", [LeaderNotAvailableError, BrokerNotAvailableError])
def test_a_temporary_error_is_not_a_refusal(world: World, error: type[KafkaError]) -> None:
    with pytest.raises(BrokerError) as refusal:
        ask(world.settings, 1.0, ask_and_raise(error))
    assert not isinstance(refusal.value, BrokerRefusedError)


def ask_and_raise(error: type[KafkaError]):
    async def raise_error(_: object) -> None:
        raise error

    return raise_error
