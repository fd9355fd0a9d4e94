"""LICENSE and NOTICE say whose work a release derives from, and what was changed."""

import hashlib

import pytest

from config.sources import HubSource, PathSource, TinySource
from ledger.errors import GateFailed
from publish.licence import licence_text, notice_text

REVISION = "9dbdf8a839e4e9e0eb56ed80cc8886661d3817cf"
# The text at apache.org/licenses/LICENSE-2.0.txt.
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_licence_is_the_whole_official_text() -> None:
    assert hashlib.sha256(licence_text("apache-2.0", "demo").encode()).hexdigest() == APACHE


def test_weights_under_another_licence_are_refused() -> None:
    with pytest.raises(GateFailed, match=r"checkpoint demo: licence is 'gemma'; accepted .* 'apache-2.0'"):
        licence_text("gemma", "demo")


def test_a_hub_model_is_attributed_with_its_revision_and_the_changes() -> None:
    source = HubSource(kind="hub", repo="google/gemma-4-E2B-it", revision=REVISION)
    text = " ".join(notice_text("gemma-4-e2b-it-inf2", source, REVISION).split())
    assert f"derive from the model google/gemma-4-E2B-it at revision {REVISION}, (c) Google" in text
    for change in ("cast to the dtype", "embedding tables", "vision and audio towers", "lowered to HLO"):
        assert change in text
    assert "not affiliated with, sponsored or endorsed by Google or AWS" in text
    assert "Gemma Terms of Use" not in text


def test_a_checkpoint_trained_here_is_not_called_googles() -> None:
    text = " ".join(notice_text("demo", TinySource(kind="tiny"), "5" * 64).split())
    assert "derive from no model of Google's" in text
    assert "(c) Google" not in text


def test_the_path_of_a_local_folder_stays_private() -> None:
    text = notice_text("mine", PathSource(kind="path", path="/home/someone/secret"), "5" * 64)
    assert "/home/someone" not in text
    assert "(c) Google" in text
