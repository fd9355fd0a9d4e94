"""`python -m publish.verify`: one line, and an exit code that a script can rely on."""

import json
import subprocess
import sys

import pytest

from ledger.errors import BadInput
from publish.trust.keys import PUBLIC
from publish.trust.kinds import Verdict
from publish.trust.trusted import Trusted
from publish.verify import __main__ as command
from publish.verify.reference import judge
from tests.publish.signed import Publisher


def run(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "publish.verify", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin", **environ})


def test_a_process_says_ok_with_the_key_of_either_way(published: Publisher) -> None:
    keys = published.root / "keys"
    flag = run(published.signed, "--key", keys / PUBLIC)
    folder = run(published.signed, "--json", NEFF_FOUNDRY_KEYS=str(keys))
    assert (flag.returncode, folder.returncode) == (0, 0)
    assert flag.stdout.startswith("ok: demo: ")
    assert flag.stdout.count("\n") == 1
    said = json.loads(folder.stdout)
    assert said["verdict"] == "ok"
    assert said["digest"] == published.receipt("sign").facts["digest"]
    assert said["reference"] == str(published.signed)


def here(capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, *arguments: object) -> tuple[int, str]:
    patch.setattr(sys, "argv", ["publish.verify", *map(str, arguments)])
    patch.delenv("NEFF_FOUNDRY_KEYS", raising=False)
    return command.main(), capsys.readouterr().out


def test_any_other_verdict_is_1(
    published: Publisher, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = published.root / "keys" / PUBLIC
    assert here(capsys, monkeypatch, published.release, "--key", key)[0] == 1
    code, said = here(capsys, monkeypatch, published.signed)
    assert (code, said.partition(":")[0]) == (1, "unknown_signer")
    assert "NEFF_FOUNDRY_KEYS" in said
    code, said = here(capsys, monkeypatch, published.root / "keys", "--key", key, "--json")
    assert (code, json.loads(said)["verdict"]) == (1, "not_a_release")


def test_an_attestation_is_judged_as_one(published: Publisher, trusted: Trusted) -> None:
    assert judge(str(published.attestation), trusted).sentence.startswith("image of 512-128")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "'nowhere' is no folder; accepted: DIR, oci:DIR"),
        (["hub:demo"], "hub:demo is of another form; accepted: hub:OWNER/NAME"),
        (["hub:a/b@"], "accepted: hub:OWNER/NAME"),
        (["docker://demo"], "accepted: "),
        ([".", "--key", "none.pub"], "key none.pub cannot be read"),
        ([".", "--identity", "me"], "--identity is 'me'; accepted: SUBJECT@https://ISSUER"),
        ([".", "--kye", "x"], "--kye"),
        ([], "REF"),
    ],
)
def test_bad_input(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        here(capsys, monkeypatch, *arguments)
    assert "\n" not in str(refused.value)


def test_an_identity_of_the_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[Trusted] = []

    def judged(_: str, trusted: Trusted) -> Verdict:
        given.append(trusted)
        return Verdict("ok", "fine")

    monkeypatch.setattr(command, "judge", judged)
    code, said = here(capsys, monkeypatch, ".", "--identity", "ci@example.com@https://accounts.example.com")
    assert (code, said) == (0, "ok: fine\n")
    assert [str(one) for one in given[0].identities] == ["ci@example.com of https://accounts.example.com"]
