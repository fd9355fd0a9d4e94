"""References that are fetched first: a real registry, and the stand-in for the Hub."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from ledger.errors import BadInput
from publish.hub.upload import upload
from publish.image.attest import push_attestation
from publish.image.registry import push
from publish.trust.keys import PUBLIC
from publish.trust.trusted import Trusted
from publish.verify.reference import judge
from tests.hub import Hub
from tests.publish.image.loopback import serving
from tests.publish.signed import Publisher


def test_an_image_in_a_registry(published: Publisher, trusted: Trusted, tmp_path: Path) -> None:
    with serving(tmp_path) as registry:
        name = f"{registry.address}/demo"
        digest = push(published.layout, f"{name}:v1").digest
        assert judge(f"docker://{name}:v1", trusted).kind == "unsigned"
        push_attestation(published.attestation, f"{name}:v1")
        for reference in (f"docker://{name}:v1", f"docker://{name}@{digest}"):
            verdict = judge(reference, trusted)
            assert (verdict.kind, verdict.digest) == ("ok", digest)
        with pytest.raises(BadInput, match="v2"):
            judge(f"docker://{name}:v2", trusted)


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_a_repository_on_the_hub(published: Publisher, tmp_path: Path) -> None:
    with Hub(tmp_path / "hub") as hub:
        HfApi(endpoint=hub.endpoint, token=hub.token).create_repo("foundry/demo")
        place = {"token": hub.token, "endpoint": hub.endpoint}
        commit = upload(published.signed, "foundry/demo", branch="staging", message="demo", **place)
        command = [sys.executable, "-m", "publish.verify", "--key", str(published.root / "keys" / PUBLIC)]
        environ = os.environ | hub.environment
        at_commit, at_main = (
            subprocess.run([*command, reference], env=environ, check=False, capture_output=True, text=True)
            for reference in (f"hub:foundry/demo@{commit.oid}", "hub:foundry/demo")
        )
    assert (at_commit.returncode, at_commit.stdout.partition(": demo")[0]) == (0, "ok")
    # The main branch was never written to.
    assert (at_main.returncode, at_main.stderr.count("\n")) == (2, 1)
