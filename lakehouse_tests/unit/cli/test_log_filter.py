"""Which lines of the services ``up`` shows."""

from lakehouse.cli.log_filter import Detail, LogFilter

AT = "2026-11-25 14:44:{second:02d} +0000 - dagster.daemon.SensorDaemon - {level} - {text}"
LOOKING = "Checking for new runs for sensor: a_sensor"
IDLE = "Sensor a_sensor skipped: Nothing to merge."


def shown(detail: Detail, *texts: str, level: str = "INFO") -> list[str]:
    log = LogFilter(detail)
    lines = [(AT.format(second=second, level=level, text=text), text) for second, text in enumerate(texts)]
    return [text for line, text in lines if log.shows(line)]


def test_an_idle_sensor_is_shown_once() -> None:
    assert shown(Detail.events, *[LOOKING, IDLE] * 40) == [IDLE]


def test_another_reason_to_skip_is_shown_and_so_is_the_first_one_when_it_returns() -> None:
    other = "Sensor a_sensor skipped: The broker is down."
    assert shown(Detail.events, IDLE, other, LOOKING, other, IDLE) == [IDLE, other, IDLE]


def test_sensors_are_told_apart() -> None:
    second = IDLE.replace("a_sensor", "b_sensor")
    assert shown(Detail.events, IDLE, second, IDLE, second) == [IDLE, second]


def test_a_line_that_is_printed_twice_is_shown_once_and_others_stay() -> None:
    assert shown(Detail.events, "Launching run 1", "Launching run 1", "Launching run 2") == [
        "Launching run 1",
        "Launching run 2",
    ]


def test_quiet_shows_trouble_alone_and_all_shows_everything() -> None:
    assert shown(Detail.quiet, LOOKING, IDLE) == []
    assert shown(Detail.quiet, "Sensor failed", level="ERROR") == ["Sensor failed"]
    assert shown(Detail.all, *[LOOKING, IDLE] * 3) == [LOOKING, IDLE] * 3
