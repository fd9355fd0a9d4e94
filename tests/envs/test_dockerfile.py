"""The Dockerfile, which cannot be built where the Neuron index is not reached: that it parses, and says what it must.

Read here by the reference's own rules (a line that ends in a backslash goes on; a comment among such lines is no part
of it); no parser of the locked environment knows the format.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from config.sdk import PINS, SDK
from publish.image.build import USER
from recipes.doctor.pins import APT, read_pins

ROOT = Path(__file__).parents[2]
PATH = ROOT / "envs/Dockerfile"
_KNOWN = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "LABEL", "RUN", "USER", "VOLUME", "WORKDIR"}
# Written by `make lock-inf2`.
_LOCKS = {"envs/inf2-build.txt", "envs/inf2-serve.txt"}


@dataclass
class Stage:
    """A stage: what it is made from, and its instructions."""

    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def of(self, keyword: str) -> list[str]:
        return [text for word, text in self.instructions if word == keyword]


def _instructions() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    parts: list[str] = []
    for line in PATH.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        parts.append(line.rstrip().removesuffix("\\").strip())
        if not line.rstrip().endswith("\\"):
            word, _, text = " ".join(parts).partition(" ")
            found.append((word, text))
            parts = []
    assert not parts, "the last line goes on"
    return found


@pytest.fixture(scope="module")
def stages() -> dict[str, Stage]:
    found: dict[str, Stage] = {}
    arguments: set[str] = set()
    for word, text in _instructions():
        assert word in _KNOWN, word
        if word == "FROM":
            match = re.fullmatch(r"(\S+) AS (\S+)", text)
            assert match, text
            assert match[1] in found or match[1].strip("${}") in arguments, text
            current = found[match[2]] = Stage(match[1])
        elif not found:
            assert word == "ARG", word
            arguments.add(text.partition("=")[0])
        else:
            current.instructions.append((word, text))
    return found


def test_runtime_is_what_is_built_without_a_target(stages: dict[str, Stage]) -> None:
    assert list(stages)[-1] == "runtime" and "build" in stages


@pytest.mark.parametrize(("name", "role"), [("build", "build"), ("runtime", "serve")])
def test_the_labels_have_the_pins_of_the_environment(stages: dict[str, Stage], name: str, role: str) -> None:
    labels = dict(re.findall(r'([\w.-]+)="([^"]*)"', " ".join(stages[name].of("LABEL"))))
    pins = {pin.name: pin.version for pin in read_pins(ROOT / f"envs/inf2-{role}.in")}
    told = {key.removeprefix("neff-foundry."): value for key, value in labels.items() if key.startswith("neff-")}
    assert told == {"sdk": SDK} | {package: pins[package] for package in PINS if package in pins}
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert {"org.opencontainers.image.title", "org.opencontainers.image.description"} <= labels.keys()


@pytest.mark.parametrize("name", ["build", "runtime", "queue", "queue-inf2"])
def test_it_does_not_run_as_root_and_has_no_health_check(stages: dict[str, Stage], name: str) -> None:
    stage = stages[name]
    assert stage.of("USER") == ["foundry"] and not stage.of("HEALTHCHECK")
    after = [word for word, _ in stage.instructions][[word for word, _ in stage.instructions].index("USER") :]
    assert set(after) <= {"USER", "CMD", "ENTRYPOINT"}
    adds = stages["queue" if name == "queue" else "base"].of("RUN")
    assert any("useradd --create-home --uid 10001 foundry" in text for text in adds)


def test_runtime_has_no_compiler_and_ends_with_the_dependencies(stages: dict[str, Stage]) -> None:
    # What publish.image takes for the layer of dependencies is the last one.
    assert stages["runtime"].of("COPY") == ["--from=serve-venv /opt/venv /opt/venv"]
    assert not stages["runtime"].of("RUN") and not stages["runtime"].of("WORKDIR")
    assert stages["serve-venv"].of("COPY") == ["envs/inf2-serve.txt /tmp/lock.txt"]


def test_its_user_is_the_one_that_images_run_as(stages: dict[str, Stage]) -> None:
    (added,) = [text for text in stages["base"].of("RUN") if "useradd" in text]
    assert f"--uid {USER.partition(':')[0]} " in added


def test_what_is_copied_is_there_and_is_let_into_the_context(stages: dict[str, Stage]) -> None:
    lines = PATH.with_name("Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines and all((ROOT / name).exists() for name in let_in)
    assert not {"results", ".venv", ".git"} & let_in
    for text in (text for stage in stages.values() for text in stage.of("COPY")):
        flags: list[str] = []
        sources: list[str] = []
        for part in text.split()[:-1]:
            (flags if part.startswith("--") else sources).append(part)
        origin = next((flag.removeprefix("--from=") for flag in flags if flag.startswith("--from=")), None)
        assert origin is None or origin in stages, text
        for source in sources if origin is None else ():
            assert source in _LOCKS or (ROOT / source).exists(), text
            assert source == "." or source.split("/")[0] in let_in, text


def test_packages_are_locked_by_hash_and_by_version(stages: dict[str, Stage]) -> None:
    for name in ("build-venv", "serve-venv"):
        (run,) = stages[name].of("RUN")
        assert "--require-hashes" in run and "--no-deps" in run
    apt = " ".join(stages["base"].of("RUN"))
    assert f"COPY envs/{APT.name} /tmp/{APT.name}".removeprefix("COPY ") in stages["base"].of("COPY")
    assert f"$(sed 's/#.*//' /tmp/{APT.name})" in apt and "python3.11" in apt


@pytest.mark.parametrize("name", ["queue", "queue-inf2"])
def test_a_job_installs_its_plugin_from_the_image_alone(stages: dict[str, Stage], name: str) -> None:
    stage = stages[name]
    variables = dict(re.findall(r"(PIP_\w+)=(\S+)", " ".join(stage.of("ENV"))))
    assert variables == {"PIP_FIND_LINKS": "/opt/wheels", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    assert "--from=plugin /opt/wheels /opt/wheels" in stage.of("COPY") and stage.of("WORKDIR") == ["/workdir"]
    (run,) = stages["plugin"].of("RUN")
    assert "--require-hashes" in run and "--no-deps" in run
    # The one requirement that it takes from the lock, with its hashes.
    script = re.match(r"(sed .*?) /tmp/queues.txt", run)
    assert script
    taken = subprocess.run(
        f"{script[1]} envs/queues.txt", shell=True, cwd=ROOT, capture_output=True, text=True, check=True
    )
    first, *hashes = taken.stdout.splitlines()
    assert re.fullmatch(r"snakemake-storage-plugin-s3==[\d.]+ \\", first)
    assert hashes and all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)


def test_keys_are_told_by_their_whole_fingerprint(stages: dict[str, Stage]) -> None:
    keys = dict(text.split("=") for text in stages["keys"].of("ARG"))
    assert all(re.fullmatch(r"[0-9A-F]{40}", value) for value in keys.values()) and len(keys) == 2
    (run,) = stages["keys"].of("RUN")
    exported = re.findall(r'--output /keys/(\S+) --export "\$\{(\w+)\}"', run)
    assert {variable for _, variable in exported} == keys.keys()
    sources = " ".join(stages["base"].of("RUN"))
    for file, _ in exported:
        assert f"test -s /keys/{file}" in run or f"-s /keys/{file}" in run
        assert f"signed-by=/etc/apt/keyrings/{file}" in sources
    assert sources.count("deb [") == len(exported)


def test_programs_and_libraries_of_aws_are_found(stages: dict[str, Stage]) -> None:
    variables = dict(re.findall(r"(\w+)=(\S+)", " ".join(stages["base"].of("ENV"))))
    assert variables["PATH"].split(":")[:2] == ["/opt/venv/bin", "/opt/aws/neuron/bin"]
    assert variables["LD_LIBRARY_PATH"] == "/opt/aws/neuron/lib"
