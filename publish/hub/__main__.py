"""`python -m publish.hub upload|plan|download`: a release folder to a staging branch, and a revision back.

There is no `promote`: main is written by `publish.promotion`, after its checks. The token comes from HF_TOKEN or the
library's token file, the address of the Hub from HF_ENDPOINT.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ledger.errors import run_cli
from ledger.flags import Parser, check_folder
from ledger.stage import say
from publish.hub.download import download
from publish.hub.plan import plan_upload
from publish.hub.upload import upload


def _upload(options: Namespace) -> None:
    message = options.message or f"Release folder {options.folder.resolve().name}"
    done = upload(options.folder, options.repo, branch=options.branch, parent=options.parent, message=message)
    what = "has it already" if done.unchanged else "holds it now"
    say(
        f"hub: {options.repo}, branch {options.branch} {what}: commit {done.oid}, {done.files_sent} files sent "
        f"({done.bytes_sent:,} bytes), {done.skipped} were there"
    )


def _plan(options: Namespace) -> None:
    plan = plan_upload(options.folder, options.repo, branch=options.branch)
    for line in [json.dumps(asdict(plan), indent=2, ensure_ascii=False)] if options.json else plan.lines():
        say(line)


def _download(options: Namespace) -> None:
    check_folder("--into", options.into)
    done = download(options.repo, options.revision, options.into)
    say(
        f"hub: {options.into} holds {options.repo} at {done.commit}: {done.files} files, {done.bytes:,} bytes, "
        f"{done.bytes_received:,} received"
    )


def _parser() -> Parser:
    parser = Parser("publish.hub", (__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="upload|plan|download")
    send = commands.add_parser("upload", help="make a branch hold exactly the folder, by one commit")
    look = commands.add_parser("plan", help="what upload would do, file by file")
    bring = commands.add_parser("download", help="make a folder hold exactly a revision, every file checked")
    for one, work in ((send, _upload), (look, _plan), (bring, _download)):
        one.set_defaults(work=work)
        if one is not bring:
            one.add_argument("folder", type=Path, metavar="DIR", help="a release folder")
        one.add_argument("--repo", required=True, metavar="OWNER/NAME", help="a repository that exists")
    for one in (send, look):
        one.add_argument("--branch", default="staging", metavar="NAME", help="not main; default: staging")
    send.add_argument("--parent", metavar="COMMIT", help="refuse a branch that is at another commit")
    send.add_argument("--message", metavar="TEXT", help="of the commit; default: the folder's name")
    look.add_argument("--json", action="store_true", help="print a JSON object")
    bring.add_argument("--revision", default="main", metavar="REV", help="a branch, tag or commit; default: main")
    bring.add_argument("--into", required=True, type=Path, metavar="DIR", help="a new or an empty folder")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Do one of the three; what was done is said in a line."""
    options = _parser().parse_args(argv)
    options.work(options)


if __name__ == "__main__":
    run_cli(main)
