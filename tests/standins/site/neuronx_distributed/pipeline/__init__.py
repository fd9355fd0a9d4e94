"""Stand-in for the import that the pipeline package makes; SDK document, section 11, point 10."""

from importlib.util import find_spec

if find_spec("transformers"):
    from transformers.utils.fx import HFTracer

    __all__ = ["HFTracer"]
