"""A broker that is there and refuses us is no broker that is away: nobody has to wait, and a setting has to change."""

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

from lakehouse.cli.doctor import _topic
from lakehouse.cli.following import _Follower
from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import BrokerError, BrokerRefusedError
from lakehouse.kafka import metadata
from lakehouse.kafka.connection import ask
from lakehouse.settings import Settings
from lakehouse_tests.helpers.sensors import World

pytestmark = pytest.mark.invariant(9, 12)


def encrypted(settings: Settings) -> Settings:
    """The same broker, spoken to with TLS on a port that has none."""
    return settings.model_copy(update={"kafka_security_protocol": "SSL"})


def test_a_wrong_protocol_fails_the_tick_and_the_check_until_it_is_corrected(world: World) -> None:
    right = world.resources["lakehouse"]
    world.resources["lakehouse"] = LakehouseResource.with_settings(encrypted(world.settings))
    said = world.fails(BrokerRefusedError)
    assert "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL" in said
    assert world.evaluations == [(False, said)]
    world.resources["lakehouse"] = right
    world.tick()
    assert [passed for passed, _ in world.evaluations] == [False, True]


def test_follow_does_not_wait_for_a_broker_that_begins_to_refuse_it(world: World) -> None:
    working: Any = SimpleNamespace(settings=world.settings, table=world.table)

    class Follower(_Follower):
        def _merge(self) -> None:
            working.settings = encrypted(world.settings)
            super()._merge()

    with pytest.raises(BrokerRefusedError):
        Follower(working, None).follow(30.0)


def test_a_topic_without_an_id_fails_the_tick_and_doctor_says_it_before_the_first_merge(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero = metadata._text(bytes(16))
    monkeypatch.setattr(metadata, "_text", lambda _: zero)
    said = world.fails(BrokerRefusedError)
    assert "tells no id of the topic" in said
    assert world.evaluations == [(False, said)]
    part = _topic(world.settings, world.table, [world.table.topic])
    assert (part.state, part.detail) == ("broken", said)
    assert not Path(world.settings.table_uri(world.table.name)).exists()


@pytest.mark.parametrize("answer", [TopicAuthorizationFailedError, ClusterAuthorizationFailedError])
def test_a_right_that_is_missing_is_a_refusal_and_the_advice_is_to_grant_it(
    world: World, answer: type[KafkaError]
) -> None:
    with pytest.raises(BrokerRefusedError, match="AuthorizationFailed") as caught:
        ask(world.settings, 3.0, raising(answer))
    assert "runs" not in caught.value.action
    assert "grant" in caught.value.action


@pytest.mark.parametrize("answer", [LeaderNotAvailableError, BrokerNotAvailableError])
def test_what_passes_by_itself_is_no_refusal(world: World, answer: type[KafkaError]) -> None:
    with pytest.raises(BrokerError) as caught:
        ask(world.settings, 1.0, raising(answer))
    assert not isinstance(caught.value, BrokerRefusedError)


def raising(error: type[KafkaError]):
    async def question(_: object) -> None:
        raise error

    return question
