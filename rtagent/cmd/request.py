"""A build's request, from the command line or from a file."""

from __future__ import annotations

import argparse
import json
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rtagent.errors import InvalidRequest
from rtagent.rpc.validation import validators

METHOD = "instance_claim"

#: option -> (metavar, type, help); those of the flavor, the instance, and the call itself.
_FLAVOR = {
    "vcpus": ("N", int, "vCPUs"),
    "memory": ("MB", int, "Memory in MB"),
    "root-gb": ("GB", int, "Root disk in GB"),
    "ephemeral-gb": ("GB", int, "Ephemeral disk in GB"),
    "swap": ("MB", int, "Swap in MB"),
    "flavor-name": ("NAME", str, "The flavor's name"),
}
_INSTANCE = {
    "instance": ("UUID", str, "The instance's uuid"),
    "name": ("NAME", str, "Its display_name"),
    "project": ("ID", str, "Its project_id"),
    "user": ("ID", str, "Its user_id"),
}
#: What the documents call an option that has another name here.
_FIELDS = {
    "memory": "memory_mb",
    "flavor-name": "name",
    "instance": "uuid",
    "name": "display_name",
    "project": "project_id",
    "user": "user_id",
}


def _field(option: str) -> str:
    return _FIELDS.get(option, option.replace("-", "_"))


#: Where the documents have what an option says.
_PATHS = {
    **{f"$.instance.{_field(option)}": f"--{option}" for option in _INSTANCE},
    **{f"$.instance.flavor.{_field(option)}": f"--{option}" for option in _FLAVOR},
    "$.instance.flavor.extra_specs": "--property",
    "$.instance.image.properties": "--image-property",
    "$.limits": "--limit",
    "$.operation_id": "--operation-id",
    "$.tag": "--tag",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that describe a request."""
    group = parser.add_argument_group(
        "request", "either a file, or --instance, --vcpus, --memory and what else there is to say"
    )
    group.add_argument(
        "--request",
        metavar="FILE",
        help='A JSON document: {"instance": {...}, "limits": {...}, ...}, as `rtagent schema show'
        f" {METHOD}` describes it; - is standard input.",
    )
    for option, (metavar, kind, text) in {**_INSTANCE, **_FLAVOR}.items():
        group.add_argument(f"--{option}", metavar=metavar, type=kind, help=f"{text}.")
    group.add_argument(
        "--volume-backed",
        action="store_true",
        default=None,
        help="The root disk is a volume: it takes no disk here.",
    )
    for option, text in (
        ("--property", "An extra spec of the flavor; may be repeated."),
        ("--image-property", "Of the image; may be repeated."),
    ):
        group.add_argument(option, action="append", type=pair, metavar="KEY=VALUE", help=text)
    group.add_argument(
        "--limit",
        action="append",
        type=amount,
        metavar="KEY=N",
        help="vcpu, memory_mb or disk_gb: how much of the host may be used in all; may be"
        " repeated. Default: what the host advertises.",
    )
    group.add_argument("--tag", help="A word of yours, kept with the claim.")


def pair(text: str) -> tuple[str, str]:
    """``KEY=VALUE``."""
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def amount(text: str) -> tuple[str, int]:
    """``KEY=N``."""
    key, value = pair(text)
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=N")
    return key, int(value)


def arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the call, as the schema has them.

    :raises InvalidRequest: the file cannot be read, or is accompanied by options; an option gives
        two values to one key.
    """
    built = _built(args)
    if args.request is None:
        return built
    if built != {"instance": {"flavor": {}}}:
        raise _invalid("--request", "it stands alone: put everything into the file")
    return _from_file(args.request)


def identify(document: dict[str, Any], operation_id: str | None) -> str:
    """Give the document its operation id: the one that is named, its own, or a new one.

    :raises InvalidRequest: it has another than the one that is named.
    """
    named = operation_id or document.get("operation_id") or str(uuid.uuid4())
    if document.setdefault("operation_id", named) != named:
        raise _invalid("--operation-id", "the file says another one: leave one of them out")
    return str(named)


def check(method: str, args: argparse.Namespace, document: Mapping[str, Any]) -> None:
    """That a method takes this document, which was made of those options.

    :raises InvalidRequest: naming every offending option, or path of the file.
    """
    try:
        validators()[method](document)
    except InvalidRequest as error:
        if args.request is not None:
            raise
        offences = [{**each, "path": _by_option(each["path"])} for each in error.kwargs["errors"]]
        raise InvalidRequest(method=method, errors=offences) from error


def _by_option(path: str) -> str:
    for start, option in _PATHS.items():
        if path == start or path.startswith(f"{start}."):
            return f"{option} {path[len(start) + 1 :]}".rstrip()
    return path


def _built(args: argparse.Namespace) -> dict[str, Any]:
    flavor = {**_given(args, _FLAVOR), **_named("extra_specs", "--property", args.property)}
    image = _named("properties", "--image-property", args.image_property)
    backed = {} if args.volume_backed is None else {"is_volume_backed": True}
    instance = {**_given(args, _INSTANCE), **backed, "flavor": flavor}
    if image:
        instance["image"] = image
    tag = {} if args.tag is None else {"tag": args.tag}
    return {"instance": instance, **_named("limits", "--limit", args.limit), **tag}


def _given(args: argparse.Namespace, options: Mapping[str, object]) -> dict[str, Any]:
    values = {name: getattr(args, name.replace("-", "_")) for name in options}
    return {_field(name): value for name, value in values.items() if value is not None}


def _named(name: str, option: str, pairs: list[tuple[str, Any]] | None) -> dict[str, Any]:
    for key, number in Counter(key for key, _ in pairs or ()).items():
        if number > 1:
            raise _invalid(f"{option} {key}", "is given more than once")
    return {name: dict(pairs)} if pairs else {}


def _from_file(name: str) -> dict[str, Any]:
    try:
        text = Path("/dev/stdin" if name == "-" else name).read_text()
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as exc:
        raise _invalid(name, f"cannot be read: {exc}") from exc
    if not isinstance(document, dict):
        raise _invalid(name, "must be a JSON object")
    return document


def _invalid(path: str, message: str) -> InvalidRequest:
    return InvalidRequest(method=METHOD, errors=[{"path": path, "message": message}])
