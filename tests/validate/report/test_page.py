"""The page as text: what it says, that it is whole, that names stay names, that it is the same twice."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.validate.report.conftest import report
from tests.validate.report.made import EXEMPT, Made, finished
from validate.report import page
from validate.report.page import DATA_FILES, number, size
from validate.report.run import read

_VOID = {"meta", "br", "path", "rect", "use"}


class Parsed(HTMLParser):
    """Tags as they open, with what is open where the page ends, and the text outside style sheets."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def good(whole: Made, tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    return Parsed(report(whole, tmp_path_factory.mktemp("good") / "report.html"))


@pytest.fixture(scope="module")
def bad(broken: Made, tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    return Parsed(report(broken, tmp_path_factory.mktemp("bad") / "report.html"))


@pytest.mark.parametrize("which", ["good", "bad"])
def test_a_page_is_well_formed_and_its_ids_are_unique(which: str, request: pytest.FixtureRequest) -> None:
    parsed: Parsed = request.getfixturevalue(which)
    assert parsed.open == []
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in parsed.tags:
        for one in (attributes.get("aria-labelledby") or "").split():
            assert one in ids
        if (attributes.get("href") or "#").startswith("#"):
            assert (attributes.get("href") or "#")[1:] in ["", *ids]


def test_nothing_is_loaded_and_nothing_could_be(good: Parsed) -> None:
    assert not {tag for tag, _ in good.tags} & {"script", "link", "img", "iframe", "object", "image"}
    assert not [one for _, attributes in good.tags for one in attributes.values() if one and "//" in one]
    policies = [attributes["content"] for tag, attributes in good.tags if attributes.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert not re.search(r"@import|url\((?!#)|@font-face", (Path(page.__file__).parent / "page.css").read_text())


def test_a_finished_run_is_told_whole(good: Parsed) -> None:
    said = good.text()
    assert "2 variants of checkpoint demo . Every stage is done" in said
    for words in ("bf16 cpu · bfloat16 · kv 512/128", "8,960 tokens 1 exempt", "3,300", "66%", "2 threads on 2 CPUs"):
        assert words in said
    assert f"chat-a {EXEMPT['position']} {EXEMPT['expected']} {EXEMPT['got']} 0.0300" in said
    captions = [attributes for tag, attributes in good.tags if tag == "caption"]
    tables = [attributes for tag, attributes in good.tags if tag == "table"]
    assert len(captions) == len(tables)
    pictures = [attributes for tag, attributes in good.tags if tag == "svg"]
    assert len(pictures) == 1 + 3 + 2 + 1
    assert all(one["role"] == "img" and one["aria-labelledby"] for one in pictures)


def test_a_broken_run_says_what_is_wrong(bad: Parsed) -> None:
    said = bad.text()
    assert "Failed: bf16/parity." in said
    assert "Mismatches (1)" in said
    states = [attributes.get("class") or "" for tag, attributes in bad.tags if tag == "g"]
    assert states.count("node failed") == 1
    assert states.count("node missing") == 4


def test_a_run_with_nothing_but_its_checkpoint(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for name in ("tables", "weights/cpu-float32-tp1", "prompts/512-128", "oracle/512-128"):
        made.forget(name)
    said = Parsed(report(made, tmp_path / "report.html")).text()
    assert "No bench receipt yet" in said
    assert "No parity receipt yet" in said


def test_a_bench_without_contexts(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    made.bench("one", contexts=[])
    assert "No bench receipt tells decode speed against context." in Parsed(report(made, tmp_path / "r.html")).text()


def test_a_receipt_of_an_older_build_is_named(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    made.write("fetch", facts={"another": 1})
    said = Parsed(report(made, tmp_path / "r.html")).text()
    assert "one/lower was made from a fetch that is not among these receipts." in said


def test_names_and_values_stay_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)<"
    made = Made(tmp_path, name=evil, checkpoint=evil)
    exempt = EXEMPT | {"prompt": "</td><script>x</script>", "check": '"><img src=x onerror=y>'}
    made.variant("<img src=x>", dtype="<b>", parity={"exemptions": [exempt], "mismatches": [exempt]})
    made.variant("<i>")
    made.write("tables", toolchain={"<u>": "<s>"}, after=["fetch"])
    parsed = Parsed(report(made, tmp_path / "report.html"))
    assert not {tag for tag, _ in parsed.tags} & {"script", "img", "b>", "i", "u", "s"}
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    said = parsed.text()
    for text in (evil, "<img src=x>", "<i>", "</td><script>x</script>", '"><img src=x onerror=y>', "<u>", "<s>"):
        assert text in said


def test_many_exemptions_are_folded(tmp_path: Path) -> None:
    def folded(count: int) -> list[bool]:
        made = Made(tmp_path / str(count))
        made.variant("one", dtype="bfloat16", parity={"exemptions": [EXEMPT] * count})
        html = report(made, tmp_path / f"{count}.html").read_text()
        return ["open" not in found for found in re.findall(r"<details( open)?>\n<summary>Exemptions", html)]

    assert folded(20) == [False]
    assert folded(21) == [True]


def test_the_same_receipts_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = (finished(tmp_path / name) for name in ("a", "b"))
    pages = [report(made, tmp_path / f"{n}.html").read_bytes() for n, made in enumerate((first, second, first))]
    assert pages[0] == pages[1] == pages[2]
    assert str(tmp_path).encode() not in pages[0]


def test_two_checkpoints_are_told_apart(tmp_path: Path) -> None:
    Made(tmp_path, checkpoint="a").variant("one")
    made = Made(tmp_path, checkpoint="b")
    made.variant("one")
    parsed = Parsed(report(made, tmp_path / "report.html"))
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert "1 variant of checkpoint a , 1 variant of checkpoint b" in parsed.text()
    assert "Missing: a/package, b/package." in parsed.text()


def test_templates_and_styles_are_part_of_the_source() -> None:
    folder = Path(page.__file__).parent
    assert sorted(DATA_FILES) == sorted(path.name for path in folder.iterdir() if path.suffix in (".jinja", ".css"))


def test_numbers_for_people(whole: Made) -> None:
    assert (number(None), number(1234.56), number(0.5, ".0%")) == ("–", "1,234.6", "50%")
    assert [size(n) for n in (None, 12, 1500, 2_500_000, 10**10)] == ["", "12 B", "1.5 kB", "2.5 MB", "10 GB"]
    assert read([whole.receipts]).name == "made"
