"""The user data of a machine: the script that it runs as root when it has started. It holds no secret."""

from __future__ import annotations

import shlex
from pathlib import Path

from config.cloud import Inf2
from validate.inf2.folder import Folder
from validate.inf2.order import ORDER, log_name, status_name

DATA_FILES: tuple[str, ...] = ("machine.sh",)
MOST = 16_384
"""Bytes that EC2 takes."""
_BODY = Path(__file__).with_name("machine.sh")
EVERY = 20
"""Seconds between two looks of a machine's log on S3."""


def userdata(cloud: Inf2, folder: Folder, region: str, attempt: int, minutes: int, every: int = EVERY) -> str:
    """A bash script; `folder` is the run's."""
    told = {
        "MINUTES": str(minutes),
        "IMAGE": cloud.image,
        "JOB": f"{folder.address}/{ORDER}",
        "LOG": f"{folder.address}/{log_name(attempt)}",
        "STATUS": f"{folder.address}/{status_name(attempt)}",
        "REGION": region,
        "EVERY": str(every),
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in told.items()]
    return "\n".join(["#!/bin/bash", *lines, _BODY.read_text(encoding="utf-8")])
