"""An alert that is not delivered is sent again, no other is, and nothing shows the URL."""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from lakehouse.defs import alerts
from lakehouse.defs.alerts import Alert
from lakehouse.settings import Settings
from lakehouse_tests.helpers.alert_world import CHECK, FAILED, FAILURE, MERGE_JOB, PASSED, SUCCESS, World
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.receivers import SECRET, Receiver


def refuse(receiver: Receiver) -> str:
    receiver.status = 404
    return "answers with 404"


def redirect(receiver: Receiver) -> str:
    receiver.status, receiver.location = 307, receiver.url
    return "answers with 307"


def stay_silent(receiver: Receiver) -> str:
    receiver.open_gate.clear()
    return "does not answer"


@pytest.mark.parametrize("fail", [refuse, redirect, stay_silent])
def test_an_alert_that_is_not_delivered_is_sent_by_the_next_tick(
    watched: World, receiver: Receiver, fail: Callable[[Receiver], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.defs.alerts._SECONDS", 0.5)
    expected_reason = fail(receiver)
    watched.end_run(FAILURE)
    watched.evaluate(FAILED)
    reason = watched.tick()
    assert expected_reason in reason and reason.startswith("Alerts sent: 0.")
    assert SECRET not in reason and "127.0.0.1" not in reason
    assert receiver.requests == 1, "one attempt per tick"
    receiver.status, receiver.location = 200, ""
    receiver.open_gate.set()
    receiver.take()
    assert watched.tick() == "Alerts sent: 2."
    assert {*receiver.states()} >= {("failed", MERGE_JOB), ("failed", CHECK)}
    watched.tick()
    assert receiver.states() == []


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("alert_format", ["json", "slack"])
def test_an_alert_whose_text_is_refused_is_sent_again_without_its_detail(
    watched: World, receiver: Receiver, status: int, alert_format: str
) -> None:
    watched.use(alert_url=receiver.url, alert_format=alert_format)
    receiver.status, receiver.refused_text = status, "17 has 2 rows"
    watched.evaluate(FAILED, "Key 17 has 2 rows.")
    assert watched.tick() == "Alerts sent: 1."
    assert receiver.requests == 2
    (alert,) = receiver.take()
    if alert_format == "json":
        assert (alert["state"], alert["subject"], alert["detail"]) == ("failed", CHECK, "")
    else:
        assert CHECK in alert["text"] and alert["text"].endswith("(ERROR)")
    watched.tick()
    assert receiver.requests == 2, "it counts as sent"


@pytest.mark.parametrize("status", [400, 404])
def test_a_tick_tries_an_alert_again_only_if_its_detail_may_be_refused(
    watched: World, receiver: Receiver, status: int
) -> None:
    receiver.status = status
    watched.evaluate(FAILED, "Key 17 has 2 rows.")
    assert f"answers with {status}" in watched.tick()
    assert receiver.requests == (2 if status == 400 else 1)


def test_what_was_sent_before_a_failed_delivery_is_not_sent_again(watched: World, receiver: Receiver) -> None:
    watched.end_run(FAILURE)
    watched.tick()
    receiver.status = 500
    watched.end_run(SUCCESS)
    watched.evaluate(FAILED)
    watched.evaluate(PASSED)
    watched.tick()
    receiver.status = 200
    watched.tick()
    expected = [("failed", MERGE_JOB), ("recovered", MERGE_JOB), ("failed", CHECK), ("recovered", CHECK)]
    assert receiver.states() == expected


def test_a_tick_sends_a_limited_number_of_alerts_and_the_next_one_the_others(
    watched: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "_MOST_ALERTS", 1)
    watched.evaluate(FAILED)
    watched.evaluate(PASSED)
    assert "at most 1" in watched.tick()
    assert receiver.states() == [("failed", CHECK)]
    watched.tick()
    assert receiver.states() == [("recovered", CHECK)]


def test_no_log_error_or_cursor_has_the_url(
    watched: World, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    watched.evaluate(FAILED)
    watched.tick()
    assert receiver.states() == [("failed", CHECK)]
    watched.use(alert_url=f"http://127.0.0.1:1/{SECRET}")
    watched.evaluate(PASSED)
    reason = watched.tick()
    assert "cannot be reached: Connection refused" in reason
    assert SECRET not in f"{caplog.text}{reason}{watched.cursor}{watched.resources['lakehouse'].settings!r}"
    assert "urllib3" not in caplog.text


def test_slack_gets_one_text_in_which_nothing_is_a_link_or_a_mention(watched: World, receiver: Receiver) -> None:
    watched.use(alert_url=receiver.url, alert_format="slack")
    watched.evaluate(FAILED, "2 keys <!channel> & more")
    watched.tick()
    (failure,) = receiver.take()
    assert list(failure) == ["text"]
    assert "*temperatures*: check temperatures:keys_unique failed since 20" in failure["text"]
    assert failure["text"].endswith("(ERROR)\n2 keys &lt;!channel&gt; &amp; more")
    watched.evaluate(PASSED)
    watched.tick()
    (recovery,) = receiver.take()
    assert "recovered at" in recovery["text"] and "ERROR" not in recovery["text"]


def test_the_page_about_alerts_has_the_fields_of_a_message_and_settings_that_work(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    (message,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert list(json.loads(message)) == [field.name for field in fields(Alert)]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(json.loads(message))
    variables = re.findall(r"^ *(LAKEHOUSE_\w+=\S+)$", page, re.MULTILINE)
    (tmp_path / ".env").write_text("\n".join(variables))
    settings = Settings(_env_file=tmp_path / ".env")
    assert settings.alert_format == "slack"
    assert settings.alert_url and settings.alert_url.get_secret_value() in page
