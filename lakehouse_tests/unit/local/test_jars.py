"""Jars and Java: what is wanted, what is checked, and the one sentence where something is wrong."""

import json
import os
import shutil
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lakehouse.errors import SetupError
from lakehouse.local import ivy as ivy_module
from lakehouse.local import jars as jars_module
from lakehouse.local.jars import GROUPS, ensure_jars, jar_states, wanted_jars
from lakehouse.local.java import find_java
from lakehouse.settings import Settings

IVY = Path(jars_module.__file__).parent
SMALL = "commons-pool2-2.13.1.jar"
REFUSED = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"


@pytest.fixture
def cache(tmp_path: Path) -> Settings:
    """A cache of its own that holds every jar of Spark."""
    full = Settings()
    for jar in ensure_jars(full, "spark"):
        target = tmp_path / jar.relative_to(full.jar_folder)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(jar, target)
    return Settings(jars=tmp_path)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", REFUSED)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What Ivy fetches from is a folder here, with one small jar; its settings are in the folder returned."""
    folder = tmp_path / "repository"
    there = folder / "org/apache/commons/commons-pool2/2.13.1"
    there.mkdir(parents=True)
    shutil.copy(Settings().jar_folder / "spark" / SMALL, there)
    settings = (IVY / "ivysettings.xml").read_text()
    (folder / "ivysettings.xml").write_text(settings.replace("<ibiblio ", f'<ibiblio root="{folder.as_uri()}/" '))
    tree = ET.parse(IVY / "ivy.xml")  # noqa: S314 - our own file
    dependencies = tree.getroot().find("dependencies")
    assert dependencies is not None
    for one in [one for one in dependencies if one.attrib["name"] != "commons-pool2"]:
        dependencies.remove(one)
    tree.write(folder / "ivy.xml")
    monkeypatch.setattr(ivy_module, "_HERE", folder)
    return folder


def fake_java(folder: Path, text: str, code: int = 0) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_every_jar_that_is_fetched_has_a_sha256_and_none_has_one_in_vain() -> None:
    tree = ET.parse(IVY / "ivy.xml")  # noqa: S314 - our own file
    kinds = {one.attrib["name"]: one.attrib["ext"] for one in tree.iter("artifact")}
    fetched = {
        f"{one.attrib['conf'].split('->')[0]}/{name}-{one.attrib['rev']}.{kinds.get(name, 'jar')}"
        for one in tree.iter("dependency")
        if (name := one.attrib["name"])
    }
    settings = Settings()
    assert {str(jar.path.relative_to(settings.jar_folder)) for jar in wanted_jars(settings)} == fetched


def test_no_jar_brings_another_with_it() -> None:
    tree = ET.parse(IVY / "ivy.xml")  # noqa: S314 - our own file
    assert {one.attrib["transitive"] for one in tree.iter("dependency")} == {"false"}


def test_the_jars_of_both_groups_are_there_and_sound() -> None:
    settings = Settings()
    for group in GROUPS:
        found = ensure_jars(settings, group)
        assert found == sorted(found)
        assert len(found) == sum(jar.group == group for jar in wanted_jars(settings))
    assert {one.state for one in jar_states(settings)} == {"sound"}


def test_a_full_cache_needs_no_network_and_no_java(cache: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert len(ensure_jars(cache, "spark")) == 9


def test_a_damaged_jar_is_named_with_what_to_do(cache: Settings) -> None:
    jar = ensure_jars(cache, "spark")[0]
    jar.write_bytes(jar.read_bytes()[:-1] + b"?")
    with pytest.raises(SetupError, match=f"damaged.*{jar.name}.*Delete this file and run") as caught:
        ensure_jars(cache, "spark")
    assert caught.value.where == str(jar)
    assert [one.jar.path for one in jar_states(cache) if one.state == "damaged"] == [jar]


def test_a_jar_that_was_checked_is_read_again_when_its_time_changed(cache: Settings) -> None:
    jar = ensure_jars(cache, "spark")[0]
    before = jar.stat()
    content = jar.read_bytes()
    jar.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(SetupError, match="damaged"):
        ensure_jars(cache, "spark")


@pytest.mark.usefixtures("repository", "no_network")
def test_a_deleted_jar_is_fetched_again(cache: Settings) -> None:
    ensure_jars(cache, "spark")
    jar = cache.jar_folder / "spark" / SMALL
    content = jar.read_bytes()
    jar.unlink()
    ensure_jars(cache, "spark")
    assert jar.read_bytes() == content
    assert not (cache.jar_folder / "incoming").exists()


def test_what_was_fetched_but_is_something_else_is_not_kept(cache: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = cache.jar_folder / "spark" / SMALL
    missing.unlink()

    def fetch_something_else(group: str, folder: Path) -> None:
        (folder / group).mkdir(parents=True)
        (folder / group / missing.name).write_bytes(b"something else")

    monkeypatch.setattr(jars_module, "fetch", fetch_something_else)
    with pytest.raises(SetupError, match=r"commons-pool2.*not kept"):
        ensure_jars(cache, "spark")
    assert not missing.exists()


@pytest.mark.usefixtures("no_network")
def test_an_empty_cache_without_a_network_is_one_sentence_with_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakehouse.local.jars"]
    environment = {**os.environ, "LAKEHOUSE_JARS": str(tmp_path / "empty")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Connect to the network once and run the same command again." in done.stderr


FETCHER = """
import sys
from pathlib import Path
from lakehouse.local import ivy
from lakehouse.local.jars import ensure_jars
from lakehouse.settings import Settings
ivy._HERE = Path(sys.argv[2])
assert len(ensure_jars(Settings(jars=sys.argv[1]), "spark")) == 9
"""


@pytest.mark.usefixtures("no_network")
def test_two_processes_that_start_at_once_both_get_every_jar(cache: Settings, repository: Path) -> None:
    jar = cache.jar_folder / "spark" / SMALL
    jar.unlink()
    command = [sys.executable, "-c", FETCHER, str(cache.jar_folder), str(repository)]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    assert jar.exists()


def test_a_list_of_checked_jars_that_cannot_be_read_is_made_again(cache: Settings) -> None:
    ensure_jars(cache, "spark")
    stamps = cache.jar_folder / "checked.json"
    stamps.write_text("{")
    ensure_jars(cache, "spark")
    assert len(json.loads(stamps.read_text())) == 9


def test_a_cache_that_cannot_be_written_is_one_sentence() -> None:
    with pytest.raises(SetupError, match="LAKEHOUSE_JARS"):
        ensure_jars(Settings(jars="/proc/jars"), "spark")  # where nobody can make a folder


def test_java_is_found_with_its_version() -> None:
    java = find_java()
    assert java.version in (17, 21)
    assert str(java.version) in java.text


def test_without_java_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SetupError, match=r"not installed.*Install Java 17 or 21"):
        find_java()


@pytest.mark.parametrize("text", ['java version "1.8.0_392"', 'openjdk version "11.0.2"', 'openjdk version "24"'])
def test_a_wrong_java_is_named(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", text)))
    with pytest.raises(SetupError, match=r"cannot use.*Install Java 17 or 21") as caught:
        find_java()
    assert text.split('"')[1] in str(caught.value)


@pytest.mark.parametrize("version", [17, 21])
def test_both_versions_of_java_are_taken(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", f'openjdk version "{version}.0.9" 2025-07-15')))
    assert find_java().version == version


def test_a_java_that_does_not_run_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "cannot load", code=1)))
    with pytest.raises(SetupError, match="does not run"):
        find_java()


def test_a_java_home_without_java_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="JAVA_HOME names a folder without Java"):
        find_java()
