"""Makes a working directory fit for the next run: `python -m recipes.recover CONFIG ...`.

Snakemake locks a working directory with files that outlive it, and cannot tell a killed run from one at work: the lock
of one that is not at work goes. Snakemake also believes every receipt that is there. One that is damaged, or whose
objects are gone from the store, is removed, so that the run makes both again. Stages write whole files or none.

What people use lies outside the store: a release, an artifact. Of each, files are looked for and their sizes compared,
and where one is not as it should be its receipt goes too, so that the run lays the folder out again. Contents are read
of lists alone: this runs before every run, also before one that has nothing to do.

Where jobs share no file system their receipts are in a bucket, and are judged there.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from config.loading import load
from ledger.digest import parse_json, sha256_file
from ledger.errors import BadInput, run_cli
from ledger.flags import Parser
from ledger.receipts import Receipt
from ledger.stage import say
from ledger.store import Store, open_store
from ledger.store.holding import Folder, Holding
from recipes.locks import unlock
from recipes.travel import add_flags, bucket_in
from serve.errors import ServeError
from serve.manifest import Manifest, locate

RESULTS = Path("results")
_THREADS = 16
_LIST = "release.json"  # the name is that of publish.trust.release, which is further down the line


def main() -> int:
    """Remove a stale lock and receipts that cannot be used; BadInput for CONFIG, or when a run is at work."""
    parser = Parser("recipes.recover", "Removes what a killed run or a damaged disk left in the way of the next run.")
    parser.add_argument(
        "config", nargs="+", type=Path, metavar="CONFIG", help="configuration of the next run, merged as snakemake does"
    )
    add_flags(parser)
    flags = parser.parse_args()
    factory = load(*flags.config)
    store = open_store(factory.store, factory.cache, flag="store")
    bucket = bucket_in(flags.snakemake, factory.store)
    unlock()
    run = RESULTS / factory.name
    _discard(Folder(Path()), run, store)
    if bucket:
        _discard(bucket, run, store, at=f"{bucket.location}/")
    _drop_summary(run / "summary.json")
    return 0


def _discard(files: Holding, run: Path, store: Store, at: str = "") -> None:
    """Remove the receipts of `run` that are of no use, and say why; those of failed runs are for people."""
    names = sorted(entry.name for entry in files.entries(f"{run}/receipts"))
    chosen = [name for name in names if name.endswith(".json") and not name.endswith(".failed.json")]
    with ThreadPoolExecutor(_THREADS) as pool:
        reasons = list(pool.map(lambda name: _unusable(files, name, store, at), chosen))
    for name, reason in zip(chosen, reasons, strict=True):
        if reason:
            files.discard([name])
            say(f"removed {at}{name}, which this run makes again: {reason}")


def _unusable(files: Holding, name: str, store: Store, at: str) -> str:
    try:
        receipt = Receipt.parse(_content(files, name), f"receipt {at}{name}")
    except BadInput as error:
        return str(error)
    gone = next((output for output, ref in receipt.outputs.items() if not store.has(ref)), None)
    if gone:
        return f"its output {gone} is missing from the store, or cut short"
    try:
        # The others who share the store do not see what this machine's folder alone has.
        store.share(receipt)
    except BadInput as error:
        return str(error)
    # Releases and artifacts are laid out on this machine, where their receipts are then too.
    return _lost(Path(name), receipt) if isinstance(files, Folder) else ""


def _content(files: Holding, name: str) -> bytes:
    try:
        return files.read(name) or b""
    except OSError as error:
        raise BadInput(f"receipt {name} cannot be read: {error.strerror}") from None


def _lost(path: Path, receipt: Receipt) -> str:
    """What is wrong with what a stage laid out, by where its receipt is.

    That is results/<name>/receipts/<checkpoint>[/<variant>]/<stage>.json.
    """
    match receipt.stage:
        case "package":
            return _lost_of_release(path.parents[2] / "release" / path.parent.name, receipt)
        case "assemble":
            checkpoint, variant = path.parents[1].name, path.parent.name
            return _lost_of_artifact(path.parents[3] / "build" / checkpoint / "variants" / variant)
        case _:
            return ""


def _lost_of_release(folder: Path, package: Receipt) -> str:
    """What is wrong with a release, whose files are the outputs of its receipt."""
    for name, ref in package.outputs.items():
        path = folder / name
        if not path.is_file():
            return f"{path} is missing"
        if path.stat().st_size != ref.bytes or (name == _LIST and sha256_file(path) != ref.sha256):
            return f"{path} is not what was released"
    return ""


def _lost_of_artifact(folder: Path) -> str:
    try:
        for ref in Manifest.read(folder).files():
            locate(folder, ref)
    except ServeError as error:
        return str(error)
    return ""


def _drop_summary(path: Path) -> None:
    try:
        parse_json(path.read_bytes(), str(path))
    except FileNotFoundError:
        return
    except BadInput as error:
        path.unlink()
        say(f"removed {path}, which this run makes again: {error}")


if __name__ == "__main__":
    run_cli(main)
