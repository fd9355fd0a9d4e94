"""Standard-library modules whose docstrings the tiny checkpoint never sees in training.

Perplexity on text that a model was trained on proves little, so parity scores these modules. The list lives
here, below both users: the corpus of recipes/tiny leaves them out, validate/prompts reads nothing else. All
are pure Python with long prose docstrings of their own (about 42,000 characters together) and are not copied
or re-exported by other modules.
"""

HELDOUT_MODULES: tuple[str, ...] = ("calendar", "fractions", "queue", "random", "statistics", "textwrap")
