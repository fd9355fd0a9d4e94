"""What an archive holds, and how large it is beside its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from validate.probe.items import sdk
from validate.probe.question import Answer, Work

SAVED = "bf16.pt"
_WIDTH = 2048


class Product(torch.nn.Module):
    """x @ weight in bfloat16, 8 MiB of weights that no two elements of share a pattern."""

    def __init__(self) -> None:
        super().__init__()
        numbers = torch.randn(_WIDTH, _WIDTH, generator=torch.Generator().manual_seed(0))
        self.weight = torch.nn.Parameter(numbers.to(torch.bfloat16), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, W] to [1, W]."""
        return torch.matmul(x, self.weight)

    @property
    def size(self) -> int:
        """Bytes of the weights."""
        return self.weight.numel() * self.weight.element_size()


def saved_weights(work: Work) -> Answer:
    """Trace with the weights kept out of the NEFF, and look at the archive's size."""
    module = Product()
    traced = sdk.trace(module, (_one_hot(0),), work, inline_weights_to_neff=False)
    size = sdk.save(traced, Path(work.own) / "separate.pt").stat().st_size
    evidence = {"weight_bytes": module.size, "archive_bytes": size}
    return Answer("yes" if size >= module.size else "no", evidence)


def bf16(work: Work) -> Answer:
    """Rows of the weight come out bit for bit under one-hot inputs."""
    path = Path(work.shared) / SAVED
    module = Product()
    if not path.exists():
        sdk.save(sdk.trace(module, (_one_hot(0),), work), path)
    model = sdk.load(path)
    rows = (0, 1, _WIDTH - 1)
    found = [sdk.outputs(model(_one_hot(row)))[0] for row in rows]
    equal = [torch.equal(one[0], module.weight[row]) for one, row in zip(found, rows, strict=True)]
    evidence: dict[str, Any] = {
        "dtype": str(found[0].dtype),
        "rows_equal": equal,
        "weight_bytes": module.size,
        "archive_bytes": path.stat().st_size,
        "not_tried": "an archive of 29 GB, at which torch.jit.save has been reported to abort",
    }
    return Answer("yes" if all(equal) and found[0].dtype == torch.bfloat16 else "no", evidence)


def compression(work: Work) -> Answer:
    """Compile with weights inlined as usual and for fast loading, and compare sizes of NEFFs, else of archives."""
    module = Product()
    sizes = {}
    for name, flags in (("usual", ()), ("fast_loading", ("--enable-fast-loading-neuron-binaries",))):
        traced = sdk.trace(module, (_one_hot(0),), work, *flags)
        path = sdk.save(traced, Path(work.shared) / SAVED if name == "usual" else Path(work.own) / "fast.pt")
        sizes[name] = {"archive": path.stat().st_size}
        newest = max(Path(work.own).rglob("*.neff"), key=lambda one: one.stat().st_mtime_ns, default=None)
        sizes[name] |= {"neff": newest.stat().st_size} if newest else {}
    kind = "neff" if all("neff" in one for one in sizes.values()) else "archive"
    usual, fast = sizes["usual"][kind], sizes["fast_loading"][kind]
    evidence = {"weight_bytes": module.size, **sizes, "ratio": round(usual / fast, 3)}
    if usual < module.size <= fast:
        return Answer(f"yes: {usual / module.size:.2f} of the weights, {fast / module.size:.2f} uncompressed", evidence)
    word = "smaller in both forms" if fast < module.size else "not smaller"
    return Answer(f"no: {word}", evidence)


def _one_hot(row: int) -> torch.Tensor:
    x = torch.zeros(1, _WIDTH, dtype=torch.bfloat16)
    x[0, row] = 1
    return x
