"""Names of images."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import BadInput
from publish.image.reference import Reference, parse

DIGEST = "sha256:" + "0a" * 32
REGISTRIES = st.sampled_from(
    ["localhost", "localhost:5000", "127.0.0.1:5000", "[::1]:5000", "ghcr.io", "1.dkr.ecr.us-east-1.amazonaws.com"]
)
NAMES = st.from_regex(r"[a-z0-9]{1,8}(/[a-z0-9]{1,8}(-[a-z0-9]{1,8})?){0,2}", fullmatch=True)
TAGS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,30}", fullmatch=True) | st.just("")


@given(REGISTRIES, NAMES, TAGS, st.sampled_from([DIGEST, ""]))
def test_what_is_written_is_read_again(registry: str, name: str, tag: str, digest: str) -> None:
    # A digest wins: written out, the tag beside it is gone.
    wanted = Reference(registry, name, "" if digest else tag, digest)
    assert parse(str(wanted)) == parse(f"docker://{wanted}") == wanted


@pytest.mark.parametrize(
    "text",
    [
        *("", "demo", "demo:latest", "org/demo:latest", "ghcr.io", "ghcr.io/", "ghcr.io/Org/demo", "ghcr.io/org//demo"),
        *("ghcr.io/org/demo:", "ghcr.io/org/demo:-x", "ghcr.io/org/demo@sha256:12", "ghcr.io/org/demo@md5:12"),
        *("https://ghcr.io/org/demo", "ghcr.io/org/demo:a b", "-ghcr.io;x/org/demo", "ghcr.io/../demo:x"),
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"accepted: REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:<hex>, in small letters$"):
        parse(text)


@pytest.mark.parametrize("registry", ["localhost", "localhost:5000", "127.0.0.1:5000", "127.8.9.1:5000", "[::1]:5000"])
def test_tls_is_left_out_on_this_machine(registry: str) -> None:
    assert parse(f"{registry}/x:y").loopback


@pytest.mark.parametrize(
    "registry", ["localhost.example.org", "127.0.0.1.example.org", "10.0.0.1:5000", "ghcr.io", "0.0.0.0:5000"]
)
def test_tls_is_asked_for_everywhere_else(registry: str) -> None:
    assert not parse(f"{registry}/x:y").loopback


def test_a_tag_and_a_digest_replace_each_other() -> None:
    one = parse("ghcr.io/org/demo:a")
    assert (
        str(one.at(DIGEST)) == f"ghcr.io/org/demo@{DIGEST}" and str(one.at(DIGEST).tagged("b")) == "ghcr.io/org/demo:b"
    )
