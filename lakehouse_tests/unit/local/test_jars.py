"""Jars and Java: what is required, what is checked, and one sentence for each problem."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import SetupError
from lakehouse.local import jars as ivy_module
from lakehouse.local import jars as jars_module
from lakehouse.local.jars import GROUPS, ensure_jars, jar_states, required_jars
from lakehouse.local.java import find_java
from lakehouse.settings import Settings

IVY = Path(jars_module.__file__).parent
SMALL_JAR = "commons-pool2-2.13.1.jar"
LOG_STORE = "s3/lakehouse-log-store-2.jar"
NO_PROXY = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"


@pytest.fixture
def cache(tmp_path: Path) -> Settings:
    """A separate cache with every jar of Spark."""
    shared_settings = Settings()
    for jar in ensure_jars(shared_settings, "spark"):
        target = tmp_path / jar.relative_to(shared_settings.jar_folder)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(jar, target)
    return Settings(jars=tmp_path)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", NO_PROXY)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local repository for Ivy with one small jar; the returned folder also has Ivy's settings."""
    folder = tmp_path / "repository"
    jar_folder = folder / "org/apache/commons/commons-pool2/2.13.1"
    jar_folder.mkdir(parents=True)
    shutil.copy(Settings().jar_folder / "spark" / SMALL_JAR, jar_folder)
    settings = (IVY / "ivysettings.xml").read_text()
    (folder / "ivysettings.xml").write_text(settings.replace("<ibiblio ", f'<ibiblio root="{folder.as_uri()}/" '))
    tree = ET.parse(IVY / "ivy.xml")  # noqa: S314 - our own file
    dependencies = tree.getroot().find("dependencies")
    assert dependencies is not None
    for dependency in [dependency for dependency in dependencies if dependency.attrib["name"] != "commons-pool2"]:
        dependencies.remove(dependency)
    tree.write(folder / "ivy.xml")
    monkeypatch.setattr(ivy_module, "_HERE", folder)
    return folder


def fake_java(folder: Path, text: str, code: int = 0) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_every_fetched_jar_has_a_sha256_and_every_sha256_has_a_jar() -> None:
    tree = ET.parse(IVY / "ivy.xml")  # noqa: S314 - our own file
    extensions = {artifact.attrib["name"]: artifact.attrib["ext"] for artifact in tree.iter("artifact")}
    fetched_jars = {
        f"{jar.attrib['conf'].split('->')[0]}/{name}-{jar.attrib['rev']}.{extensions.get(name, 'jar')}"
        for jar in tree.iter("dependency")
        if (name := jar.attrib["name"])
    }
    settings = Settings()
    names = {str(jar.path.relative_to(settings.jar_folder)) for jar in required_jars(settings)}
    assert names == fetched_jars | {LOG_STORE}


def test_no_jar_has_transitive_dependencies() -> None:
    tree = ET.parse(IVY / "ivy.xml")  # noqa: S314 - our own file
    assert {jar.attrib["transitive"] for jar in tree.iter("dependency")} == {"false"}


def test_the_jars_of_both_groups_are_present_and_undamaged() -> None:
    settings = Settings()
    for group in GROUPS:
        paths = ensure_jars(settings, group)
        assert paths == sorted(paths)
        assert len(paths) == sum(jar.group == group for jar in required_jars(settings))
    assert {state for jar, state in jar_states(settings) if jar.group not in ("s3", "azure")} == {"sound"}


def test_a_complete_cache_needs_no_network_and_no_java(cache: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert len(ensure_jars(cache, "spark")) == 9


def test_the_log_store_is_compiled_to_the_same_bytes_without_a_network(
    cache: Settings, no_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (IVY / "jars.sha256").read_text().splitlines(keepends=True)
    (cache.jar_folder / "list").write_text("".join(line for line in lines if "s3/" not in line or LOG_STORE in line))
    monkeypatch.setattr(jars_module, "_LIST", cache.jar_folder / "list")
    assert ensure_jars(cache, "s3") == [cache.jar_folder / LOG_STORE]
    assert not (cache.jar_folder / "incoming").exists()
    (cache.jar_folder / LOG_STORE).unlink()
    for jar in cache.jar_folder.glob("spark/delta-storage-*.jar"):
        jar.unlink()
    with pytest.raises(SetupError, match="could not be compiled.*HadoopFileSystemLogStore"):
        ensure_jars(cache, "s3")


def test_a_damaged_jar_is_reported_with_the_repair(cache: Settings) -> None:
    jar = ensure_jars(cache, "spark")[0]
    jar.write_bytes(jar.read_bytes()[:-1] + b"?")
    with pytest.raises(SetupError, match=f"damaged.*{jar.name}.*Delete this file and run") as raised:
        ensure_jars(cache, "spark")
    assert raised.value.where == str(jar)
    assert [jar.path for jar, state in jar_states(cache) if state == "damaged"] == [jar]


def test_a_checked_jar_is_read_again_if_its_modification_time_changes(cache: Settings) -> None:
    jar = ensure_jars(cache, "spark")[0]
    before = jar.stat()
    content = jar.read_bytes()
    jar.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(SetupError, match="damaged"):
        ensure_jars(cache, "spark")


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Count the files whose SHA-256 is computed."""
    reads: list[object] = []
    file_digest = hashlib.file_digest

    def count_read(file: Any, name: str) -> Any:
        reads.append(file)
        return file_digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", count_read)
    return reads


def pull_image(cache: Settings) -> None:
    """Cut the modification times to whole seconds, as the layers of an image do."""
    for jar in cache.jar_folder.rglob("*.jar"):
        seconds = int(jar.stat().st_mtime)
        os.utime(jar, (seconds, seconds))


@contextmanager
def may_only_be_read(cache: Settings) -> Iterator[None]:
    """Work as a user who may read the cache, and not write it."""
    is_root = os.geteuid() == 0
    for parent in cache.jar_folder.parents:
        if parent.name.startswith(("pytest-", "popen-")) and parent.stat().st_uid == os.geteuid():
            parent.chmod(0o755)
    cache.jar_folder.chmod(0o555)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        cache.jar_folder.chmod(0o755)


def test_the_jars_of_an_image_that_was_pulled_are_not_read_again(
    cache: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_jars(cache, "spark")
    pull_image(cache)
    reads = count_reads(monkeypatch)
    with may_only_be_read(cache):
        assert len(ensure_jars(cache, "spark")) == 9
    assert reads == []


def test_a_cache_that_may_only_be_read_is_used_if_its_jars_are_sound(
    cache: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = count_reads(monkeypatch)
    with may_only_be_read(cache):
        assert len(ensure_jars(cache, "spark")) == 9
    assert len(reads) == 9
    jar = cache.jar_folder / "spark" / SMALL_JAR
    jar.write_bytes(b"damaged")
    with may_only_be_read(cache), pytest.raises(SetupError, match=f"damaged.*{SMALL_JAR}"):
        ensure_jars(cache, "spark")
    jar.unlink()
    with may_only_be_read(cache), pytest.raises(SetupError, match="The jar cache cannot be used: Permission denied"):
        ensure_jars(cache, "spark")


@pytest.mark.usefixtures("repository", "no_network")
def test_a_deleted_jar_is_fetched_again(cache: Settings) -> None:
    ensure_jars(cache, "spark")
    jar = cache.jar_folder / "spark" / SMALL_JAR
    content = jar.read_bytes()
    jar.unlink()
    ensure_jars(cache, "spark")
    assert jar.read_bytes() == content
    assert not (cache.jar_folder / "incoming").exists()


def test_a_fetched_file_with_a_wrong_sha256_is_discarded(cache: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    missing_jar = cache.jar_folder / "spark" / SMALL_JAR
    missing_jar.unlink()

    def fetch_wrong_file(group: str, folder: Path) -> None:
        (folder / group).mkdir(parents=True)
        (folder / group / missing_jar.name).write_bytes(b"something else")

    monkeypatch.setattr(jars_module, "fetch", fetch_wrong_file)
    with pytest.raises(SetupError, match=r"commons-pool2.*discarded"):
        ensure_jars(cache, "spark")
    assert not missing_jar.exists()


@pytest.mark.usefixtures("no_network")
def test_an_empty_cache_without_a_network_is_reported_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakehouse.local.jars"]
    environment = {**os.environ, "LAKEHOUSE_JARS": str(tmp_path / "empty")}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "Connect to the network once and run the same command again." in result.stderr


FETCHER = """
import sys
from pathlib import Path
from lakehouse.local import jars
from lakehouse.local.jars import ensure_jars
from lakehouse.settings import Settings
jars._HERE = Path(sys.argv[2])
assert len(ensure_jars(Settings(jars=sys.argv[1]), "spark")) == 9
"""


@pytest.mark.usefixtures("no_network")
def test_two_processes_that_start_together_both_get_every_jar(cache: Settings, repository: Path) -> None:
    jar = cache.jar_folder / "spark" / SMALL_JAR
    jar.unlink()
    command = [sys.executable, "-c", FETCHER, str(cache.jar_folder), str(repository)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert jar.exists()


def test_an_unreadable_list_of_checked_jars_is_recreated(cache: Settings) -> None:
    ensure_jars(cache, "spark")
    stamps = cache.jar_folder / "checked.json"
    stamps.write_text("{")
    ensure_jars(cache, "spark")
    assert len(json.loads(stamps.read_text())) == 9


def test_a_cache_that_cannot_be_written_is_reported() -> None:
    with pytest.raises(SetupError, match="LAKEHOUSE_JARS"):
        ensure_jars(Settings(jars="/proc/jars"), "spark")  # no folder can be created there


def test_find_java_returns_the_version() -> None:
    java = find_java()
    assert java.version in (17, 21)
    assert str(java.version) in java.text


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SetupError, match=r"not installed.*Install Java 17 or 21"):
        find_java()


@pytest.mark.parametrize("text", ['java version "1.8.0_392"', 'openjdk version "11.0.2"', 'openjdk version "24"'])
def test_an_unsupported_java_is_reported_with_its_version(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", text)))
    with pytest.raises(SetupError, match=r"cannot use.*Install Java 17 or 21") as raised:
        find_java()
    assert text.split('"')[1] in str(raised.value)


@pytest.mark.parametrize("version", [17, 21])
def test_both_supported_versions_of_java_are_accepted(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", f'openjdk version "{version}.0.9" 2025-07-15')))
    assert find_java().version == version


def test_a_java_that_does_not_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "cannot load", code=1)))
    with pytest.raises(SetupError, match="does not run"):
        find_java()


def test_a_java_home_without_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="JAVA_HOME is a folder without Java"):
        find_java()
