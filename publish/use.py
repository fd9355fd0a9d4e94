"""The part of the card for those who pull: two lines for an image, two for the folder, and what each variant needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from config.geometry import Geometry
from config.models import Release
from publish.gate import Admitted
from publish.markdown import table
from publish.needs import devices, gib, needs_of

_IMAGE = """\
An image holds all that a variant needs. Two lines, here for {variant}:

    docker run --rm {flags} {image}:{tag}
    curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d '{{"messages": [{{"role": "user", "content": "What is a list?"}}]}}'

It is ready when `/ready` answers 200. To deploy, name the image by its digest, `{image}@sha256:...`: a tag is for
finding it. `images.json` in this folder, which is signed with it, has the digest of each.
"""  # noqa: E501  (a command that people copy is one line)

_CHECK = """\
Everything was signed before it was published, this folder in `model.sig` and each image in an attestation beside it;
with a checkout of neff-foundry and the publisher's public key:

    python -m publish.verify hub:{repo}@{version} --key publisher.pub
    python -m publish.verify docker://{image}:{tag} --key publisher.pub
"""

_FOLDER = """\
The folder runs without an image too. In it:

    python3.11 -m venv venv && venv/bin/pip install --no-deps --require-hashes{index} -r serve/requirements.txt
    venv/bin/python -m serve variants/{latest}

The server has OpenAI's routes on port 8080 and checks a known answer before it is ready. From Python:

    from pathlib import Path
    from tokenizers import Tokenizer
    from serve.engine import Engine

    tokenizer = Tokenizer.from_file("tokenizer.json")
    prompt = "<bos><|turn>user\\nWhat is a list?<turn|>\\n<|turn>model\\n"
    ids = tokenizer.encode(prompt, add_special_tokens=False).ids
    engine = Engine.load(Path("variants/{latest}"))
    answer = [token.id for token in engine.generate(ids, max_new=64)]
    print(tokenizer.decode(answer))

The tokenizer adds no `<bos>` by itself; chat_template.jinja writes it, as the example does.
"""

_NEURON_INDEX = " --extra-index-url https://pip.repos.neuron.amazonaws.com"

_NEEDS = """\
What an instance must have is calculated from the sizes of the graphs and from what published builds were seen to take;
it was not measured. What was measured is below.
"""

_SWAP = """\
Loading {names} takes more memory than the smaller instance has, so it needs swap there, once:

    sudo fallocate -l {size}G /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile && sudo swapon /swapfile
"""


class Published(BaseModel):
    """Under which names people get a release: the image with a tag for each variant, and the Hub repository."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str
    repo: str
    version: str
    tags: dict[str, str]


def use(
    release: Release, variants: Sequence[Admitted], published: Published | None, geometry: Geometry | None
) -> Iterator[str]:
    """The paragraphs of the section; images are left out of a release that is not `published`.

    `geometry` is the checkpoint's shape, which variants of target inf2 need.
    """
    latest = next(variant for variant in variants if variant.name == release.latest)
    if published:
        names = {"image": published.image, "tag": published.tags[latest.name]}
        yield _IMAGE.format(variant=latest.name, flags=" ".join(flags(latest)), **names)
        yield _images(variants, published)
        yield _CHECK.format(repo=published.repo, version=published.version, **names)
    yield _FOLDER.format(latest=latest.name, index=_NEURON_INDEX if latest.manifest.variant.target == "inf2" else "")
    if geometry:
        yield from _instances([one for one in variants if one.manifest.variant.target == "inf2"], geometry)


def flags(variant: Admitted) -> Iterator[str]:
    """What `docker run` is told for a variant.

    A device for two ranks each (aws-neuron-sdk, deploy/tutorials/build-run-container.rst); ranks share memory of the
    host, for which published builds with more than one give --ipc=host.
    """
    point = variant.manifest.variant
    if point.target == "inf2":
        yield from (f"--device=/dev/neuron{index}" for index in range(devices(variant.manifest)))
        if point.tp > 1:
            yield "--ipc=host"
    yield "-p 8080:8080"


def _images(variants: Sequence[Admitted], published: Published) -> str:
    rows = [
        (one.name, f"`{published.image}:{published.tags[one.name]}`", f"`{' '.join(flags(one))}`") for one in variants
    ]
    return table(("variant", "image", "flags of docker run"), rows)


def _instances(variants: Sequence[Admitted], geometry: Geometry) -> Iterator[str]:
    """Instance, memory and disk of each variant, and the command for swap where a smaller instance would do with it."""
    rows, swaps = [], []
    for variant in variants:
        needs = needs_of(variant.manifest, geometry)
        smaller = f"{needs.swap[0].name} with {gib(needs.swap[1])} GiB of swap" if needs.swap else "-"
        instance = needs.instance.name if needs.instance else "none is large enough"
        disk = variant.receipts["bench"].facts["size_mb"]
        rows.append((variant.name, instance, f"{gib(needs.host)} GiB", f"{disk} MB", smaller))
        swaps += [(variant.name, gib(needs.swap[1]))] if needs.swap else []
    yield _NEEDS
    yield table(("variant", "instance", "host memory, at load", "disk", "or a smaller one"), rows)
    if swaps:
        yield _SWAP.format(names=", ".join(name for name, _ in swaps), size=max(size for _, size in swaps))
