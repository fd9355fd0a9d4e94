"""What jobs ask for, against the plugin's own table of containers; which rule has a job, by matching whole paths."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loading import load
from config.models import Factory
from ledger.errors import BadInput
from ledger.sources import ROOT
from recipes.queues import Queues, container, pairs
from recipes.workflow import Plan, Wildcards

_PLUGINS = ROOT / ".venv" / "queues" / "lib" / "python3.11" / "site-packages"
_TABLE = _PLUGINS / "snakemake_executor_plugin_aws_batch" / "constant.py"
_names = st.text("ab.-1", min_size=1, max_size=3)


def of(checkpoint: str, variant: str = "") -> Wildcards:
    return cast("Wildcards", SimpleNamespace(checkpoint=checkpoint, variant=variant))


@pytest.fixture(scope="module")
def real() -> Queues:
    return Queues(Plan(load(ROOT / "config" / "variants.yaml")))


@pytest.mark.skipif(not _TABLE.exists(), reason="snakemake's plugins are not installed: make queues")
@given(mb=st.integers(1, 122_880), cores=st.sampled_from([1, 2, 4, 8, 16]))
def test_every_container_is_one_that_the_plugin_lets_through(mb: int, cores: int) -> None:
    tree = ast.parse(_TABLE.read_text())
    table: dict[int, list[int]] = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
    )
    has, memory = container(mb, cores)
    assert has in table[memory]
    assert (has, memory) == min(
        (one, size) for size, accepted in table.items() for one in accepted if size >= mb and one >= cores
    )


def test_a_job_that_no_container_holds_says_what_it_needs() -> None:
    assert container(200_000) == (16, 200_000)


def test_a_device_compile_does_not_start_beside_another_on_a_host_of_64_gb(real: Queues) -> None:
    job = of("gemma-4-e2b-it", "slim")
    assert 2 * real.mem_mb("compile")(job) > 64_000
    assert (real.mem_mb("compile")(job), real.cores("compile")(job)) == (61_440, 8)


def test_a_measurement_has_the_cores_of_its_recipe_or_the_whole_machine() -> None:
    small = Queues(Plan(load(ROOT / "config" / "smoke.yaml")))
    job = of("demo", "128-32")
    assert (small.cores("bench")(job), small.cores("bench", 64)(job), small.cores("parity")(job)) == (2, 64, 1)


def test_only_target_inf2_holds_neuroncores(real: Queues) -> None:
    assert (real.inf2(of("gemma-4-e2b-it", "tp2-slim")), real.gres(of("gemma-4-e2b-it", "tp2-slim"))) == (
        2,
        "neuroncore:2",
    )
    small = Queues(Plan(load(ROOT / "config" / "smoke.yaml")))
    assert (small.inf2(of("demo", "128-32")), small.gres(of("demo", "128-32"))) == (0, None)


def test_a_name_that_is_cpu_here_and_inf2_there_is_in_one_rule_each() -> None:
    factory = load(ROOT / "config" / "demo-inf2.yaml")
    checkpoint = factory.checkpoints["demo"]
    ours = checkpoint.variants[0].model_copy(update={"target": "cpu", "builder": "xla", "kv": "device"})
    other = checkpoint.model_copy(update={"name": "other", "variants": (ours,)})
    queues = Queues(Plan(factory.model_copy(update={"checkpoints": {"demo": checkpoint, "other": other}})))
    for target, expected in {
        "cpu": {("other", ours.name)},
        "inf2": {("demo", v.name) for v in checkpoint.variants},
    }.items():
        pattern = re.compile(rf"receipts/({queues.of_target(target)})/([^/]+)/parity\.json")
        asked = {(c, v.name) for c in ("demo", "other") for v in checkpoint.variants}
        assert {(c, v) for c, v in asked if pattern.fullmatch(f"receipts/{c}/{v}/parity.json")} == expected


@given(chosen=st.frozensets(st.tuples(_names, _names), max_size=5), asked=st.tuples(_names, _names))
def test_a_constraint_lets_in_the_chosen_pairs_and_no_other(
    chosen: frozenset[tuple[str, str]], asked: tuple[str, str]
) -> None:
    pattern = re.compile(rf"receipts/({pairs(chosen)})/([^/]+)/parity\.json")
    for pair in {asked, *chosen}:
        assert bool(pattern.fullmatch("receipts/{}/{}/parity.json".format(*pair))) == (pair in chosen)


def test_folders_of_this_machine_are_fetched_here(real: Queues) -> None:
    here, there = (re.compile(real.of_source(here=here)) for here in (True, False))
    assert there.fullmatch("gemma-4-e2b-it") and here.fullmatch("gemma-4-12b-it")
    assert not here.fullmatch("gemma-4-e2b-it") and not there.fullmatch("gemma-4-12b-it")


def _stored(
    store: str, provider: str | None = "s3", prefix: str = "s3://bucket/files", config: str = "config/smoke.yaml"
) -> Queues:
    smoke = load(ROOT / "config" / "smoke.yaml").model_dump() | {"store": store}
    usage: set[Any] = set()
    storage = SimpleNamespace(default_storage_provider=provider, default_storage_prefix=prefix, shared_fs_usage=usage)
    return Queues(Plan(Factory.model_validate(smoke)), storage, [Path(config)])


def test_a_folder_as_store_is_refused_where_no_job_sees_it() -> None:
    with pytest.raises(BadInput, match=r"store is 'results/store'; accepted .*: s3://BUCKET/PREFIX"):
        _stored("results/store")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"config": "../mine.yaml"}, r"--configfile \.\./mine\.yaml: accepted where .*: a file below "),
        ({"prefix": "s3:/x"}, r"--default-storage-prefix: found 's3:/x'; accepted: s3://BUCKET/PREFIX"),
        ({"prefix": "gs://bucket/x"}, r"--default-storage-prefix: found 'gs://bucket/x'; accepted: "),
        ({"prefix": "s3://bucket/store"}, r"--default-storage-prefix .* is in the store .*; accepted: a prefix beside"),
        ({"prefix": "s3://bucket/store/files"}, r"--default-storage-prefix .* is in the store .*; accepted: "),
    ],
)
def test_what_a_job_could_not_find_is_refused_at_the_start(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        _stored("s3://bucket/store", **given)


@pytest.mark.parametrize(
    ("store", "prefix", "apart"),
    [
        ("s3://bucket/store/", "s3://bucket/store/files", False),
        ("s3://bucket", "s3://bucket/files", False),
        ("s3://bucket/store", "s3://bucket/stores", True),
        ("s3://bucket/store", "s3://other/store", True),
    ],
)
def test_files_that_travel_are_beside_the_store(store: str, prefix: str, apart: bool) -> None:
    if apart:
        _stored(store, prefix=prefix)
        return
    with pytest.raises(BadInput, match="is in the store"):
        _stored(store, prefix=prefix)


def test_a_shape_that_is_only_in_a_folder_of_this_machine_does_not_travel(tmp_path: Path) -> None:
    shutil.copy(ROOT / "config" / "geometry" / "tiny.json", tmp_path / "config.json")
    smoke = load(ROOT / "config" / "smoke.yaml").model_dump() | {"store": "s3://bucket/store"}
    source = {"kind": "path", "path": str(tmp_path)}
    smoke["checkpoints"]["demo"] |= {"source": source, "geometry": None}
    storage = SimpleNamespace(
        default_storage_provider="s3", default_storage_prefix="s3://bucket/files", shared_fs_usage=set()
    )
    with pytest.raises(BadInput, match=r"checkpoints\.demo\.geometry: is missing; accepted .* config/geometry"):
        Queues(Plan(Factory.model_validate(smoke)), storage)


def test_in_a_bucket_there_is_no_folder_of_links() -> None:
    queues = _stored("s3://bucket/store")
    assert (queues.build, queues.manifest) == ([], {})
