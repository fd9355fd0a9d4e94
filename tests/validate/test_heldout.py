"""Held-out text against the modules themselves."""

import inspect
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.heldout import HELDOUT_MODULES
from ledger.errors import BadInput
from validate.heldout import docstrings, windows


def test_docstrings_are_those_the_module_shows() -> None:
    found = docstrings("textwrap")
    shown = [textwrap, textwrap.TextWrapper, textwrap.TextWrapper.wrap, textwrap.wrap, textwrap.dedent]
    assert found[0] == inspect.getdoc(textwrap)
    assert {inspect.getdoc(one) for one in shown} <= set(found)


def test_every_heldout_module_has_text() -> None:
    assert min(sum(map(len, docstrings(module))) for module in HELDOUT_MODULES) > 1000


@pytest.mark.parametrize("module", ["sys", "no_such_module"])
def test_a_module_without_source(module: str) -> None:
    with pytest.raises(BadInput, match=f"held-out module '{module}' has no source"):
        docstrings(module)


@given(st.lists(st.integers(3, 9), max_size=40), st.integers(0, 50), st.integers(1, 12))
def test_windows_lose_nothing_and_hold_text(ids: list[int], total: int, size: int) -> None:
    cut = windows(ids, bos=2, size=size, total=total)
    if size == 1:
        assert cut == []
        return
    assert [token for window in cut for token in window[1:]] == ids[:total]
    assert all(window[0] == 2 and 2 <= len(window) <= size for window in cut)
