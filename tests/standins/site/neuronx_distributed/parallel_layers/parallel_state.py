"""Stand-in for parallel_layers.parallel_state; SDK document, sections 2.5 and 3.5: the sizes, the rank, one TP group.

Where it bites: the platform target must be known, torch.distributed initialised (or mocked), and the state free.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Group:
    """The ranks that take part in a collective; `_mesh` is the list of groups that the graph shows."""

    ranks: tuple[int, ...]
    _mesh: list[list[int]]
    own: int

    def size(self) -> int:
        """Ranks in the group."""
        return len(self.ranks)

    def rank(self) -> int:
        """This process's place in it."""
        return self.own


_TENSOR_MODEL_PARALLEL_GROUP: Group | None = None
_AOT_MODE = False


def initialize_model_parallel(
    tensor_model_parallel_size: int = 1,
    pipeline_model_parallel_size: int = 1,
    context_parallel_size: int = 1,
    expert_model_parallel_size: int = 1,
    skip_collective_init: bool = False,
    lnc_size: int = 1,
    mesh_only: bool = False,
) -> None:
    """Make the tensor-parallel group of this rank; RuntimeError where sizes do not divide the world."""
    global _TENSOR_MODEL_PARALLEL_GROUP  # noqa: PLW0603 - the SDK's state is its module's too
    from torch_neuronx.utils import get_platform_target

    get_platform_target("")
    assert torch.distributed.is_initialized()
    assert _TENSOR_MODEL_PARALLEL_GROUP is None, "tensor model parallel group is already initialized"
    world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    tp = tensor_model_parallel_size
    if world % (tp * pipeline_model_parallel_size):
        raise RuntimeError(
            f"`world_size` ({world}) is not divisible by tensor_model_parallel_size ({tp}) x "
            f"pipeline_model_parallel_size ({pipeline_model_parallel_size})"
        )
    mesh = [list(range(start, start + tp)) for start in range(0, world, tp)]
    mine = mesh[rank // tp]
    _TENSOR_MODEL_PARALLEL_GROUP = Group(tuple(mine), mesh, mine.index(rank))


def model_parallel_is_initialized() -> bool:
    """Whether there is a group."""
    return _TENSOR_MODEL_PARALLEL_GROUP is not None


def get_tensor_model_parallel_group(as_list: bool = False) -> Group | list[list[int]]:
    """The group of this rank, or with `as_list` every group of the world."""
    assert _TENSOR_MODEL_PARALLEL_GROUP is not None, "intra_layer_model parallel group is not initialized"
    return _TENSOR_MODEL_PARALLEL_GROUP._mesh if as_list else _TENSOR_MODEL_PARALLEL_GROUP


def get_tensor_model_parallel_replica_groups() -> list[list[int]]:
    """Every tensor-parallel group of the world."""
    groups = get_tensor_model_parallel_group(as_list=True)
    assert isinstance(groups, list)
    return groups


def get_tensor_model_parallel_size() -> int:
    """Ranks in the tensor-parallel group."""
    group = get_tensor_model_parallel_group()
    assert isinstance(group, Group)
    return group.size()


def get_tensor_model_parallel_rank() -> int:
    """This rank in its tensor-parallel group: a Python number, frozen into whatever is traced with it."""
    group = get_tensor_model_parallel_group()
    assert isinstance(group, Group)
    return group.rank()


def set_aot_mode(mode: bool) -> None:
    """Ahead-of-time mode, on while ModelBuilder traces."""
    global _AOT_MODE  # noqa: PLW0603
    _AOT_MODE = mode


def get_aot_mode() -> bool:
    """Whether ModelBuilder traces."""
    return _AOT_MODE


def destroy_model_parallel() -> None:
    """Forget the group."""
    global _TENSOR_MODEL_PARALLEL_GROUP  # noqa: PLW0603
    _TENSOR_MODEL_PARALLEL_GROUP = None
