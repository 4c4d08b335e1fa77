"""Read the document of a file that an operator writes, as a provider file: YAML, with limits."""

import os
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from rtagent.errors import FileError, ProviderFileError
from rtagent.model.printable import printable

#: The size of a file in bytes. That is enough for some thousand providers.
MAX_BYTES = 2**18
#: The number of values of a document in which each alias is replaced by what it stands for. Without
#: this limit a few lines of nested aliases would stand for more values than the memory can hold.
MAX_VALUES = 20_000
#: The depth of a document; one that schema 1.0 allows has seven levels.
MAX_DEPTH = 32

#: The length of a part of a message, which may repeat what was written.
MAX_SHOWN = 300
#: How many mistakes of a file are listed.
MAX_LISTED = 20

#: What the constructors of PyYAML raise besides `yaml.YAMLError`: for a number with thousands of
#: digits, an impossible date, or a value that does not have the type that its tag names.
_IMPOSSIBLE = (ValueError, LookupError, AttributeError, ArithmeticError)


_E = TypeVar("_E", bound=FileError)
#: Makes the error for a place of a file, of the file, the place and the rule that is broken.
FileErrors = Callable[[Path, str, str], FileError]


def read_document(file: Path) -> Any:
    """Return the only document of a provider file, made of Python's basic types.

    :raises ProviderFileError: the file cannot be read, is not YAML, or exceeds a limit.
    """
    return parsed_yaml(file, read_bytes(file, MAX_BYTES, file_error), file_error)[1]


def parsed_yaml(file: Path, text: bytes, error: FileErrors) -> tuple[yaml.Node | None, Any]:
    """Return the root node of the only document of a text, and the document itself.

    :raises FileError: the text is not YAML, or exceeds a limit.
    """
    try:
        loader = _Loader(text)
        try:
            return _load(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise error(file, _place(mark), str(exc.problem or exc.context)) from exc
    except yaml.reader.ReaderError as exc:
        raise error(file, f"character {exc.position}", str(exc.reason)) from exc
    except _IMPOSSIBLE as exc:
        raise error(file, "", "a value is not valid for its type") from exc


class _Loader(yaml.SafeLoader):
    """A loader that refuses deep nesting while it reads, because each level is a recursion."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if parent is not None and self._depth > MAX_DEPTH:
            raise _refused(parent, f"the document has more than {MAX_DEPTH} levels")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _load(loader: _Loader) -> tuple[yaml.Node | None, Any]:
    root = loader.get_single_node()
    if root is None:
        return None, None
    _count(root, {})
    return root, loader.construct_document(root)


def _count(node: yaml.Node, counted: dict[int, int]) -> int:
    """Return the number of values that a node stands for.

    :param counted: the numbers of the nodes so far, by identity; 0 while a node is counted.
    :raises yaml.MarkedYAMLError: the node contains itself, has a key twice, or is too large.
    """
    key = id(node)
    if counted.get(key) == 0:
        raise _refused(node, "an alias stands for a value that contains it")
    if key not in counted:
        counted[key] = 0
        counted[key] = 1 + sum(_count(child, counted) for child in _children(node))
        if counted[key] > MAX_VALUES:
            raise _refused(node, f"the document has more than {MAX_VALUES} values")
    return counted[key]


def _children(node: yaml.Node) -> list[yaml.Node]:
    match node:
        case yaml.MappingNode():
            _check_keys(node)
            return [child for pair in node.value for child in pair]
        case yaml.SequenceNode():
            return list(node.value)
    return []


def _check_keys(node: yaml.MappingNode) -> None:
    keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    times = Counter((key.tag, key.value) for key in keys)
    for key in keys:
        if times[key.tag, key.value] > 1:
            raise _refused(key, "the key is in the mapping twice")


def _refused(node: yaml.Node, rule: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=rule, problem_mark=node.start_mark)


def read_bytes(file: Path, most: int, error: FileErrors) -> bytes:
    """Return the content of a file. :raises FileError: it cannot be read, or has more bytes."""
    try:
        # O_NONBLOCK: if the file is a pipe, do not wait for a writer.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise error(file, "", "is not a regular file")
            content = opened.read(most + 1)
    except OSError as exc:
        raise error(file, "", f"cannot be read: {exc.strerror}") from exc
    if len(content) > most:
        raise error(file, "", f"has more than {most} bytes")
    return content


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def file_error(file: Path, path: str, rule: str) -> ProviderFileError:
    """Return the error for a place of a provider file."""
    return ProviderFileError(
        group="compute", option="provider_config_location", **place_in(file, path, rule)
    )


def listed(file: Path, mistakes: list[_E], error: Callable[[Path, str, str], _E]) -> list[_E]:
    """Return the first mistakes of a file, and one that has the number of the others."""
    if len(mistakes) <= MAX_LISTED:
        return mistakes
    more = error(file, "", f"and {len(mistakes) - MAX_LISTED} more mistakes")
    return [*mistakes[:MAX_LISTED], more]


def place_in(file: Path, path: str, rule: str) -> dict[str, str]:
    """Return what an error says about a place of a file."""
    return {
        "file": printable(str(file)),  # a name need not be valid Unicode
        "path": printable(path, MAX_SHOWN),
        "rule": printable(rule, MAX_SHOWN),
    }
