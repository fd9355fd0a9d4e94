"""Stage image: a variant of the release as an OCI image, in a folder of its own.

The layers are in a cache that every variant and every run shares. The folder is filled every time, which takes no
longer than reading it when nothing has changed.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ledger.atomic import make_folder
from ledger.errors import run_cli
from ledger.flags import Parser, check_folder
from ledger.stage import Job, Outcome, run_stage
from publish.image.build import ImageSpec, build
from publish.image.runtime import Runtime, fetch_runtime, make_runtime
from publish.trust.source import read_source


class ImageRecipe(BaseModel):
    """The variant, and under which name and tag its image will be found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    version: str
    reference: str = Field(description="REGISTRY/NAME")
    tag: str
    runtime: str | None = Field(description="what it stands on, REGISTRY/NAME@sha256:...; None: made here, for cpu")


def work(job: Job[ImageRecipe], release: Path, layout: Path, cache: Path) -> Outcome:
    """Build the image into `layout`; its digest is the same wherever and whenever that is done."""
    recipe = job.recipe
    runtime = _runtime(recipe, cache)
    spec = ImageSpec(
        release, recipe.variant, runtime.layout, layout, cache, version=recipe.version, revision=read_source().commit
    )
    built = build(spec)
    return Outcome(
        facts={
            "digest": built.digest,
            "reference": recipe.reference,
            "tag": recipe.tag,
            "base": runtime.base_digest,
            "layers": [[layer.name, layer.digest, layer.bytes] for layer in built.layers],
        }
    )


def _runtime(recipe: ImageRecipe, cache: Path) -> Runtime:
    # The first of several variants makes it, for all.
    with _alone(cache / "runtime.lock"):
        return fetch_runtime(cache, recipe.runtime) if recipe.runtime else make_runtime(cache)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Within it no other process of this machine is within it; the lock ends with the process too."""
    make_folder(path.parent)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(argv: list[str] | None = None) -> int:
    """The stage; --release is the packaged folder, --layout is filled, --cache holds layers."""
    own = Parser("image", add_help=False)
    folders = ("--release", "--layout", "--cache")
    for flag in folders:
        own.add_argument(flag, required=True, type=Path, metavar="DIR")
    options, rest = own.parse_known_args(argv)
    for flag in folders:
        check_folder(flag, getattr(options, flag[2:]))
    return run_stage(
        "image",
        ImageRecipe,
        lambda job: work(job, options.release, options.layout, options.cache),
        modules=("publish.promotion.image",),
        packages=(),
        fills_folder=True,
        argv=rest,
    )


if __name__ == "__main__":
    run_cli(main)
