"""The program as mypy reads it: expressions with their types, names with their definitions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from mypy import build
from mypy.find_sources import create_source_list
from mypy.nodes import Decorator, Expression, FuncDef, MypyFile, OverloadedFuncDef, TypeInfo, Var
from mypy.options import Options
from mypy.types import (
    AnyType,
    Instance,
    LiteralType,
    NoneType,
    TupleType,
    Type,
    TypeType,
    UnionType,
    get_proper_type,
)

#: Installed packages whose types matter here. Others count as untyped, which keeps this fast.
TYPED_LIBRARIES = ("msgspec", "msgspec.*", "immutables", "immutables.*")


class Program:
    """The packages of one source tree."""

    def __init__(self, root: Path, *packages: str) -> None:
        """:param packages: names of the top-level packages below `root` to be read."""
        options = _options(root)
        sources = create_source_list([str(root / package) for package in packages], options)
        result = build.build(sources, options)
        self._files = result.files
        self._types: Mapping[Expression, Type] = result.types
        self._own = {source.module for source in sources}
        self._functions = {
            function.fullname: function
            for name in sorted(self._own)
            if name in result.files
            for function in _functions(result.files[name])
        }

    @cached_property
    def _classes_of_own(self) -> list[TypeInfo]:
        return [
            symbol.node
            for name in sorted(self._own & self._files.keys())
            for _, symbol, _ in self._files[name].local_definitions()
            if isinstance(symbol.node, TypeInfo) and symbol.node.module_name == name
        ]

    def functions(self, pattern: str) -> list[FuncDef]:
        """Functions and methods whose dotted name matches a shell pattern."""
        return [self._functions[name] for name in self._functions if fnmatchcase(name, pattern)]

    def owns(self, function: FuncDef) -> bool:
        """Whether the function is written in the packages: neither of a library nor generated."""
        return self._functions.get(function.fullname) is function

    def module(self, name: str) -> str:
        """Dotted name of the module that a dotted name is defined in."""
        while name and name not in self._own:
            name = name.rpartition(".")[0]
        return name

    def classes_of(self, expression: Expression) -> list[TypeInfo]:
        """Classes that the value of an expression may be an instance of."""
        return list(_classes(self._types.get(expression)))

    def parts(self, function: FuncDef, argument: str) -> frozenset[TypeInfo]:
        """The class of a parameter, and those that it is composed of."""
        kind = next(each for each in function.arguments if each.variable.name == argument)
        parts = set(_mentioned(kind.variable.type))
        todo = [*parts]
        while todo:
            new = self._parts(todo.pop()) - parts
            parts |= new
            todo += new
        return frozenset(parts)

    def holders(self, documents: frozenset[TypeInfo]) -> frozenset[TypeInfo]:
        """These classes, and those that hold one."""
        parts = set(documents)
        held = {info: self._parts(info) for info in self._values()}
        while holders := {info for info, fields in held.items() if fields & parts} - parts:
            parts |= holders
        return frozenset(parts)

    def keeps(self, expression: Expression, documents: frozenset[TypeInfo]) -> bool:
        """Whether the value of an expression may hold one of these documents. What is no plain
        value, such as an object with behaviour or a callable, may."""
        found = self._types.get(expression)
        if found is None:
            return True
        kinds = set(_mentioned(found))
        return not kinds or any(info in documents or not _is_value(info) for info in kinds)

    def is_scalar(self, expression: Expression) -> bool:
        """Whether the value is a number, a text, a moment or None, and not a collection of them."""
        return _is_scalar(self._types.get(expression))

    def _values(self) -> list[TypeInfo]:
        return [info for info in self._classes_of_own if _is_value(info)]

    def _parts(self, info: TypeInfo) -> set[TypeInfo]:
        own = self._own
        return {
            part
            for base in info.mro
            if base.module_name in own
            for symbol in base.names.values()
            if isinstance(symbol.node, Var)
            for part in _mentioned(symbol.node.type)
            if part.module_name in own and _is_value(part)
        }

    def concrete(self, function: FuncDef) -> TypeInfo | None:
        """The most derived class that has a method, for the type of its ``self``."""
        if not function.info:
            return None
        derived = [
            each.info
            for each in self._functions.values()
            if each.info and function.info in each.info.mro
        ]
        return max(derived, key=lambda info: len(info.mro), default=function.info)


def method_of(info: TypeInfo, name: str) -> FuncDef | None:
    """The method or property that an attribute of a class's instance is."""
    for base in info.mro:
        symbol = base.names.get(name)
        if symbol is not None:
            return function_of(symbol.node)
    return None


def function_of(node: object) -> FuncDef | None:
    """The function behind a definition, without its decorators."""
    if isinstance(node, OverloadedFuncDef) and node.items:
        node = node.items[0]
    if isinstance(node, Decorator):
        node = node.func
    return node if isinstance(node, FuncDef) else None


def _options(root: Path) -> Options:
    options = Options()
    options.export_types = options.preserve_asts = True
    options.incremental, options.cache_dir = False, "/dev/null"
    options.namespace_packages = options.explicit_package_bases = True
    options.mypy_path = [str(root)]
    options.python_executable = sys.executable
    options.check_untyped_defs = options.ignore_missing_imports = True
    options.ignore_errors = True
    options.follow_imports = "skip"
    options.per_module_options = {name: {"follow_imports": "silent"} for name in TYPED_LIBRARIES}
    options.build_per_module_cache()
    return options


def _functions(file: MypyFile) -> Iterator[FuncDef]:
    for _, symbol, _ in file.local_definitions():
        function = None if symbol.plugin_generated else function_of(symbol.node)
        if function is not None and function.fullname.startswith(file.fullname + "."):
            yield function


def _classes(found: Type | None) -> Iterator[TypeInfo]:
    proper = get_proper_type(found)
    if isinstance(proper, Instance):
        yield proper.type
    elif isinstance(proper, UnionType):
        for item in proper.items:
            yield from _classes(item)
    elif isinstance(proper, TypeType):
        yield from ()
    elif proper is None or isinstance(proper, AnyType):
        return
    elif hasattr(proper, "partial_fallback"):  # a tuple
        yield from _classes(proper.partial_fallback)


#: Classes of numbers, texts and moments; what holds nothing but these holds no document.
SCALARS = ("builtins.", "datetime.", "enum.", "uuid.")


def _is_scalar(found: Type | None) -> bool:
    proper = get_proper_type(found)
    if isinstance(proper, UnionType):
        return all(map(_is_scalar, proper.items))
    if isinstance(proper, LiteralType | NoneType):
        return True
    return (
        isinstance(proper, Instance)
        and not proper.args
        and proper.type.fullname.startswith(SCALARS)
    )


def _is_value(info: TypeInfo) -> bool:
    return info.fullname.startswith(SCALARS) or any(
        base.fullname in ("msgspec.Struct", "enum.Enum") for base in info.mro
    )


def _mentioned(found: Type | None) -> Iterator[TypeInfo]:
    """Classes in a type, but for those of containers."""
    proper = get_proper_type(found)
    if isinstance(proper, Instance):
        if not proper.args:
            yield proper.type
        for argument in proper.args:
            yield from _mentioned(argument)
    elif isinstance(proper, UnionType | TupleType):
        for item in proper.items:
            yield from _mentioned(item)
