"""The request of a build claim, from options of the command line or from a file."""

from __future__ import annotations

import argparse
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtagent.errors import InvalidRequest

if TYPE_CHECKING:
    from rtagent.rpc.method import Method

METHOD = "instance_claim"

#: Options of the flavor and of the instance: (metavar, type, help).
FLAVOR = {
    "vcpus": ("N", int, "vCPUs"),
    "memory": ("MB", int, "Memory in MB"),
    "root-gb": ("GB", int, "Root disk in GB"),
    "ephemeral-gb": ("GB", int, "Ephemeral disk in GB"),
    "swap": ("MB", int, "Swap in MB"),
    "flavor-name": ("NAME", str, "Name of the flavor"),
}
_INSTANCE = {
    "instance": ("UUID", str, "Uuid of the instance"),
    "name": ("NAME", str, "Its display_name"),
    "project": ("ID", str, "Its project_id"),
    "user": ("ID", str, "Its user_id"),
}
#: The field of an option whose name differs from it.
_FIELDS = {
    "memory": "memory_mb",
    "flavor-name": "name",
    "instance": "uuid",
    "name": "display_name",
    "project": "project_id",
    "user": "user_id",
}


def field(option: str) -> str:
    """Return the field that an option sets."""
    return _FIELDS.get(option, option.replace("-", "_"))


#: The path in the document, and the option that sets it.
_PATHS = {
    **{f"$.instance.{field(option)}": f"--{option}" for option in _INSTANCE},
    **{f"$.instance.flavor.{field(option)}": f"--{option}" for option in FLAVOR},
    "$.instance.flavor.extra_specs": "--property",
    "$.instance.image.properties": "--image-property",
    "$.limits": "--limit",
    "$.allocations": "--allocation",
    "$.provider_mapping": "--provider-mapping",
    "$.operation_id": "--operation-id",
    "$.tag": "--tag",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a request."""
    group = parser.add_argument_group(
        "request", "either a file, or --instance, --vcpus, --memory and further options"
    )
    group.add_argument(
        "--request",
        metavar="FILE",
        help='A JSON document, {"instance": {...}, "limits": {...}, ...}, as described by `rtagent'
        f" schema show {METHOD}`; - is standard input.",
    )
    add_fields(group, {**_INSTANCE, **FLAVOR})
    add_volume_backed(group)
    for option, (metavar, parse, text) in _pairs().items():
        group.add_argument(option, action="append", type=parse, metavar=metavar, help=text)
    group.add_argument("--tag", help="A text of your choice, stored with the claim.")


def add_fields(
    group: argparse._ArgumentGroup, options: Mapping[str, tuple[str, type, str]]
) -> None:
    """Add an option for each field."""
    for option, (metavar, kind, text) in options.items():
        group.add_argument(f"--{option}", metavar=metavar, type=kind, help=f"{text}.")


def add_volume_backed(group: argparse._ActionsContainer) -> None:
    """Add the option that counts no root disk."""
    group.add_argument(
        "--volume-backed",
        action="store_true",
        default=None,
        help="The root disk is a volume and uses no disk of the host.",
    )


def _pairs() -> dict[str, tuple[str, Callable[[str], object], str]]:
    """Return the options that may be repeated: (metavar, parser, help)."""
    return {
        "--property": ("KEY=VALUE", pair, "An extra spec of the flavor; may be repeated."),
        "--image-property": ("KEY=VALUE", pair, "A property of the image; may be repeated."),
        "--limit": (
            "KEY=N",
            quantity,
            "The total of vcpu, memory_mb or disk_gb that may be used on the host; may be"
            " repeated. Default: what the host advertises.",
        ),
        "--allocation": (
            "rp=UUID,CLASS=N[,CLASS=N]",
            allocation,
            "What Placement has allocated from a resource provider; may be repeated. The claim"
            " follows it. Default: the agent chooses.",
        ),
        "--provider-mapping": (
            "REQUEST=UUID[,UUID]",
            providers,
            "The resource providers of a PCI request, by its id or the name of its alias; may be"
            " repeated.",
        ),
    }


def pair(text: str) -> tuple[str, str]:
    """Parse ``KEY=VALUE``."""
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def quantity(text: str) -> tuple[str, int]:
    """Parse ``KEY=N``."""
    key, value = pair(text)
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=N")
    return key, int(value)


def allocation(text: str) -> tuple[str, dict[str, Any]]:
    """Parse ``rp=UUID,CLASS=N``."""
    first, *rest = text.split(",")
    name, uuid = pair(first)
    if name != "rp" or not rest:
        raise argparse.ArgumentTypeError(f"{text!r} is not rp=UUID,CLASS=N")
    resources = dict(map(quantity, rest))
    if len(resources) < len(rest):
        raise argparse.ArgumentTypeError(f"{text!r} has a class twice")
    return uuid, {"resources": resources}


def providers(text: str) -> tuple[str, list[str]]:
    """Parse ``REQUEST=UUID[,UUID]``."""
    request, uuids = pair(text)
    return request, uuids.split(",")


def arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of the call, as in the schema.

    :raises InvalidRequest: the file cannot be read or is combined with options, or an option gives
        two values to one key.
    """
    document = _from_options(args)
    if args.request is None:
        return document
    if document != {"instance": {"flavor": {}}}:
        raise InvalidRequest.at(
            METHOD, "--request", "cannot be combined with options: put everything into the file"
        )
    return read_document(args.request, METHOD)


def identify(document: dict[str, Any], operation_id: str | None) -> str:
    """Set the operation id of the document: the given one, its own, or a new one. Return it.

    :raises InvalidRequest: the given one differs from that of the document.
    """
    chosen = operation_id or document.get("operation_id") or str(uuid.uuid4())
    if document.setdefault("operation_id", chosen) != chosen:
        raise InvalidRequest.at(
            METHOD, "--operation-id", "differs from that of the file: leave one of them out"
        )
    return str(chosen)


def check(method: str, args: argparse.Namespace, document: Mapping[str, Any]) -> None:
    """Validate the arguments of a method, which were made from these options.

    :raises InvalidRequest: names each invalid option, or each path of the file.
    """
    from rtagent.rpc.methods import METHODS

    check_options(METHODS[method], document, {} if args.request is not None else _PATHS)


def check_options(method: Method, document: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Validate the arguments of a method.

    :param options: by the path that each one sets. :raises InvalidRequest: names each invalid
        option, and each other path.
    """
    from rtagent.rpc.schemas import validate

    with naming(options):
        validate(method, document)


@contextmanager
def naming(options: Mapping[str, str]) -> Iterator[None]:
    """Name, in place of each path that a refusal has, the option that sets it.

    :param options: by path. :raises InvalidRequest: as the block.
    """
    try:
        yield
    except InvalidRequest as error:
        errors = [
            {**each, "path": _option(each["path"], options)} for each in error.kwargs["errors"]
        ]
        raise InvalidRequest(method=error.kwargs["method"], errors=errors) from error


def _option(path: str, options: Mapping[str, str]) -> str:
    """Return the option that sets a path, and the rest of the path."""
    for start, option in options.items():
        if path == start or path.startswith((f"{start}.", f"{start}[")):
            return f"{option} {path[len(start) :].removeprefix('.')}".rstrip()
    return path


def _from_options(args: argparse.Namespace) -> dict[str, Any]:
    flavor = {**fields(args, FLAVOR), **mapping("extra_specs", "--property", args.property)}
    image = mapping("properties", "--image-property", args.image_property)
    volume = {} if args.volume_backed is None else {"is_volume_backed": True}
    instance = {**fields(args, _INSTANCE), **volume, "flavor": flavor}
    if image:
        instance["image"] = image
    tag = {} if args.tag is None else {"tag": args.tag}
    mappings = {
        **mapping("limits", "--limit", args.limit),
        **mapping("allocations", "--allocation", args.allocation),
        **mapping("provider_mapping", "--provider-mapping", args.provider_mapping),
    }
    return {"instance": instance, **mappings, **tag}


def fields(args: argparse.Namespace, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields that options of `FLAVOR`, or others of one value, were given for."""
    values = {name: getattr(args, name.replace("-", "_")) for name in options}
    return {field(name): value for name, value in values.items() if value is not None}


def mapping(
    name: str, option: str, pairs: list[tuple[str, Any]] | None, method: str = METHOD
) -> dict[str, Any]:
    """Return the field that a repeated option sets, or nothing.

    :raises InvalidRequest: a key is given twice.
    """
    for key, number in Counter(key for key, _ in pairs or ()).items():
        if number > 1:
            raise InvalidRequest.at(method, f"{option} {key}", "is given more than once")
    return {name: dict(pairs)} if pairs else {}


def hints(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str | list[str]]:
    """Return scheduler hints: a text, or a list for a key that is given more than once."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: found[0] if len(found) == 1 else found for key, found in values.items()}


def read_document(name: str, method: str) -> dict[str, Any]:
    """Return the JSON object in a file; - is standard input. It is UTF-8, in every locale.

    :raises InvalidRequest: it cannot be read, or is not an object.
    """
    try:
        text = Path("/dev/stdin" if name == "-" else name).read_text("utf-8-sig")
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as exc:
        rule = f"cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise InvalidRequest.at(method, name, rule) from exc
    if not isinstance(document, dict):
        raise InvalidRequest.at(method, name, "must be a JSON object")
    return document
