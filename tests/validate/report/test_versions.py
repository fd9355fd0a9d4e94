"""Versions of packages and digests, as receipts have them."""

from pathlib import Path

from tests.validate.report.made import Made
from validate.report.run import read
from validate.report.versions import digests, hosts, versions


def test_a_package_in_two_versions_is_two_lines(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.write("tables", after=["fetch"], toolchain={"torch": "2.9.0", "cores": "2"})
    packages, host = versions(read([made.receipts]))
    assert [(one.version, one.stages) for one in packages if one.package == "torch"] == [
        ("2.8.0", ("fetch",)),
        ("2.9.0", ("tables",)),
    ]
    assert [(one.package, one.version) for one in host] == [("cores", "2")]


def test_digests_are_whole_and_of_every_kind(whole: Made) -> None:
    run = read([whole.receipts])
    found = {(one.kind, one.name): one for one in digests(run, "demo")}
    manifest = run.receipts("demo", "bf16")["assemble"].outputs["manifest.json"]
    assert found["Artifacts", "bf16: manifest.json"].sha256 == manifest.sha256
    assert found["Artifacts", "bf16: manifest.json"].bytes == 4
    assert found["Files of the checkpoint", "config.json"].bytes == 2
    oracle = run.receipts("demo", None)["oracle/512-128"]
    assert found["Prompts and oracles", "oracle/512-128: oracle.json"].sha256 == oracle.outputs["oracle.json"].sha256
    assert found["Receipts", "oracle/512-128"].sha256 == oracle.digest
    assert found["Source of stages", "parity"].sha256 == "5" * 64
    assert ("Artifacts", "package: release.json") in found
    assert not any(name.endswith("LICENSE") for _, name in found)


def test_the_machines_of_the_benches_are_named_once(whole: Made, tmp_path: Path) -> None:
    assert hosts(read([whole.receipts])) == ["2 threads on 2 CPUs"]
    made = Made(tmp_path)
    made.variant("one")
    made.bench("one", cpu_model="Some CPU", threads=1)
    assert hosts(read([made.receipts])) == ["Some CPU, 1 threads on 2 CPUs"]
