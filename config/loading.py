"""Reading a configuration file: strict YAML in, a checked Factory or one sentence out.

It departs from yaml.safe_load three times. A key given twice is an error (YAML forbids it, PyYAML keeps the last
one in silence), a mapping or list that holds itself is one too, and text that looks like a date stays text, so
that a name such as 2048-08-12 is a name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from yaml.composer import Composer

from config.models import Factory
from ledger.errors import BadInput, explain

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(Composer, yaml.CSafeLoader):
    """SafeLoader without dates, and with an error for a repeated key and for an alias of what it is a part of.

    Text is taken apart by libyaml, five times as fast as in Python, and composed in Python, where these checks are.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  (the name and the type are PyYAML's)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        Composer.__init__(self)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        alias: Any = self.peek_event() if self.check_event(yaml.AliasEvent) else None
        node = super().compose_node(parent, index)
        # Until its last line is composed, a mapping or list has no end.
        if alias is not None and isinstance(node, yaml.CollectionNode) and node.end_mark is None:
            raise yaml.MarkedYAMLError(
                problem=f"*{alias.anchor} is a part of what it names", problem_mark=alias.start_mark
            )
        return node

    # In the composer, as the constructor sees merged keys (<<) and may see one node several times.
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        first: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in first:
                problem = f"key {key.value!r} is given twice, first in line {first[key.value]}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            first[key.value] = key.start_mark.line + 1
        return node


def read_mapping(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises BadInput when the file cannot be read, is not YAML, repeats a key, or holds something else.
    """
    accepted = "accepted: a YAML mapping with the keys of config/defaults.yaml, each key once"
    try:
        document = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {accepted}") from error
    # PyYAML lets its constructors' own exceptions escape: ValueError for 0x_, KeyError for !!bool x.
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path}: not YAML ({_one_line(error)}); {accepted}") from error
    if not isinstance(document, dict):
        raise BadInput(f"{path}: found {_kind(document)}; {accepted}")
    return document


def from_mapping(mapping: Mapping[str, Any], origin: str) -> Factory:
    """A checked configuration from a mapping; `origin` is the file or flag that an error is to name.

    Raises BadInput.
    """
    try:
        try:
            return Factory.model_validate(dict(mapping))
        except ValidationError as error:
            raise BadInput(explain(error, origin, Factory)) from error
    # From either: a value that is too deep to be read may also be too deep to be shown.
    except RecursionError as error:
        raise BadInput(f"{origin}: nested too deeply; accepted: the keys of config/defaults.yaml") from error


def load(path: str | Path, *more: str | Path) -> Factory:
    """A checked configuration from a YAML file, with each of `more` merged over it as snakemake merges --configfile.

    Raises BadInput.
    """
    merged = read_mapping(path)
    for other in more:
        merged = merge(merged, read_mapping(other))
    return from_mapping(merged, " and ".join(map(str, (path, *more))))


def merge(old: Any, new: Mapping[str, Any]) -> Any:
    """Mappings joined key by key, an empty one changing nothing; any other value takes the place of what was there.

    As snakemake.utils.update_config does; that takes a second to import.
    """
    for key, value in new.items():
        old = old if isinstance(old, dict) else {}
        old[key] = merge(old.get(key, {}), value) if isinstance(value, dict) else value
    return old


def _kind(document: object) -> str:
    return "an empty file" if document is None else f"a {type(document).__name__}"


def _one_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())
