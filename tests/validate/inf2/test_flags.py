"""What a person may get wrong: settings of AWS, addresses, flags, and an order that is not whole."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ledger.errors import BadInput
from tests.validate.inf2.orders import order
from validate.inf2 import hardware, stage
from validate.inf2.clients import Clients
from validate.inf2.order import Order


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AWS_PROFILE", "nope", "The config profile .nope. could not be found"),
        ("AWS_ENDPOINT_URL", "garbage", "Invalid endpoint: garbage"),
    ],
)
def test_settings_that_make_no_client_are_bad_input(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadInput, match=f"^settings of AWS: {said}.*; accepted: "):
        Clients().ec2("us-east-1")


@pytest.mark.parametrize("address", ["s3:///job.json", "s3://b/job.json", "s3://my-bucket//job.json", "job.json"])
def test_an_address_that_is_no_runs_is_bad_input(address: str) -> None:
    with pytest.raises(BadInput, match=r"^JOB is .*; accepted: the address of a run"):
        hardware.main([address])


@pytest.mark.parametrize("poll", ["-1", "0", "nan", "inf", "1e9", "soon"])
def test_a_pause_that_is_none_is_bad_input(poll: str) -> None:
    with pytest.raises(BadInput, match=f"argument --poll: found '{poll}'; accepted: seconds"):
        stage.main([f"--poll={poll}"])


def test_the_stage_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        stage.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "--poll SECONDS" in said and "--recipe JSON" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inputs": {}}, "inputs: found "),
        ({"steps": {}}, "steps: found "),
        ({"steps": {"parity": {"recipe": {}, "source": ""}}}, "steps: found "),
        ({"assemble": {"recipe": {}}}, "inputs.assemble: found "),
        ({"assemble": {"recipe": {"checkpoint": "a", "variant": {}}}}, "inputs.assemble: found "),
        ({"assemble": {"outputs": {}}}, "inputs.assemble: found "),
    ],
)
def test_an_order_that_is_not_whole_is_refused(changes: dict[str, Any], said: str) -> None:
    made = order().model_dump(mode="json")
    made["inputs"]["assemble"] |= changes.pop("assemble", {})
    with pytest.raises(ValidationError, match=f"{said}.*; accepted: "):
        Order.model_validate(made | changes)
