"""Columns as wide as their widest cell."""

from ledger.columns import aligned


def test_words_to_the_left_and_figures_to_the_right() -> None:
    rows = [("what", "s", "where"), ("a long name", "1.50", "here"), ("b", "-", "")]
    assert aligned(rows, figures=[1]) == [
        "what            s  where",
        "a long name  1.50  here",
        "b               -",
    ]
