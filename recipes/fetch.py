"""Stage fetch: a checkpoint is built, copied or downloaded, verified against its pins, and kept in the store.

Departs from a download: it ends with a proof. What comes out is a whole checkpoint of the configured
geometry, licence and digests, or one sentence about the first thing that is not. A folder of one's own is
copied, so a later edit there changes nothing that was built from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import Field, computed_field

from config.base import Sha256, Strict
from config.geometry import geometry_path
from config.sources import GeometrySource, HubSource, PathSource, Source, TinySource
from ledger.digest import digest_json
from ledger.errors import BadInput, run_cli
from ledger.stage import Job, Outcome, run_stage, say
from recipes.checkpoint import TEXT_FILES, Checkpoint
from recipes.shards import INDEX

WANTED = (*TEXT_FILES, INDEX, "*.safetensors", "README.md")


class FetchRecipe(Strict):
    """Where a checkpoint comes from and what it must be; the keys are those of the configuration."""

    source: Source
    geometry: str | None
    licence: str
    files: dict[str, Sha256] = Field(default={})
    template_sha256: Sha256 | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def found(self) -> dict[str, tuple[int, int]]:
        """Size and time of each file of a path source: part of the key, as a folder has no revision."""
        if not isinstance(self.source, PathSource):
            return {}
        paths = (path for path in sorted(Path(self.source.path).glob("*")) if path.is_file())
        return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


@contextmanager
def obtained(recipe: FetchRecipe) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A folder that holds the checkpoint for as long as the context lasts, and the facts its making gave."""
    match recipe.source:
        case TinySource(seed=seed, steps=steps):
            # Imported here: torch and transformers are for this kind of source only.
            from recipes.tiny.build import build_tiny

            with TemporaryDirectory(prefix="foundry-tiny-") as name:
                geometry = geometry_path(recipe.geometry or "tiny")
                yield Path(name), build_tiny(Path(name), geometry=geometry, seed=seed, steps=steps)
        case GeometrySource(seed=seed):
            from recipes.random_checkpoint import build_random

            with TemporaryDirectory(prefix="foundry-random-") as name:
                geometry = geometry_path(recipe.geometry or "tiny")
                yield Path(name), build_random(Path(name), geometry=geometry, seed=seed)
        case PathSource(path=path):
            if not Path(path).is_dir():
                raise BadInput(f"source.path: found {path!r}, which is no folder; accepted: a checkpoint folder")
            yield Path(path), {}
        case HubSource() as hub:
            from recipes.hub.source import obtain

            folder, digests = obtain(hub, recipe.licence, WANTED)
            yield folder, {"digests": digests}


def work(job: Job[FetchRecipe]) -> Outcome:
    """Obtain the checkpoint, check it, store it file by file."""
    recipe = job.recipe
    with obtained(recipe) as (folder, made):
        checkpoint = Checkpoint(folder)
        geometry = checkpoint.check_geometry(recipe.geometry)
        checkpoint.check_licence(recipe.licence)
        checkpoint.check_ids()
        checkpoint.check_tokenizer()
        checkpoint.check_template(recipe.template_sha256)
        checkpoint.check_config()
        say(f"fetch: {len(checkpoint.tensors)} tensors in {len(checkpoint.files())} files")
        outputs = {name: job.store.put_file(folder / name) for name in checkpoint.files()}
        digests = {name: ref.sha256 for name, ref in outputs.items()}
        checkpoint.check_pins(digests, recipe.files)
        measured = made.pop("measured", {})
        facts = {
            "bos": checkpoint.bos,
            "stop_ids": checkpoint.stop_ids,
            "suppress_tokens": checkpoint.suppress_tokens,
            "template_sha256": checkpoint.template_sha256,
            "licence": recipe.licence,
            "revision": recipe.source.revision if isinstance(recipe.source, HubSource) else digest_json(digests),
            "geometry": geometry,
            "tensors": len(checkpoint.tensors),
            "text_tensors": len(checkpoint.text_tensors),
        }
    return Outcome(outputs=outputs, facts=facts | ({recipe.source.kind: made} if made else {}), measured=measured)


def main() -> int:
    """`python -m recipes.fetch`, a stage."""
    packages = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "jinja2", "numpy")
    return run_stage("fetch", FetchRecipe, work, modules=("recipes.fetch",), packages=packages)


if __name__ == "__main__":
    run_cli(main)
