"""The request of a server, from options of the command line."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from lxml import etree

from rtagent.cmd.claim_request import (
    FLAVOR,
    add_fields,
    add_volume_backed,
    field,
    fields,
    hints,
    mapping,
    naming,
    pair,
)
from rtagent.errors import InvalidRequest
from rtagent.model.base import Converter
from rtagent.model.request import Flavor
from rtagent.model.schema_errors import schema_errors
from rtagent.model.server import RequestSpec
from rtagent.virt.libvirt.document import BadDocument, parse

#: Options of the request: (metavar, type, help).
_SPEC = {
    "project": ("ID", str, "Its project_id"),
    "user": ("ID", str, "Its user_id"),
    "availability-zone": ("NAME", str, "Only hosts of this availability zone"),
}
#: The path in the document, and the option that sets it.
_PATHS = {
    **{f"$.flavor.{field(option)}": f"--{option}" for option in FLAVOR},
    "$.flavor.extra_specs": "--property",
    "$.image.properties": "--image-property",
    "$.scheduler_hints": "--hint",
    "$.force_hosts[0]": "--host",
    **{f"$.{field(option)}": f"--{option}" for option in _SPEC},
}


def add_flavor(parser: argparse.ArgumentParser) -> None:
    """Add the options of a flavor."""
    group = parser.add_argument_group("flavor")
    add_fields(group, FLAVOR)
    group.add_argument(
        "--property",
        action="append",
        type=pair,
        metavar="KEY=VALUE",
        help="An extra spec; may be repeated.",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a server to build."""
    add_flavor(parser)
    group = parser.add_argument_group("request")
    add_fields(group, _SPEC)
    for option, text in (
        ("--image-property", "A property of the image; may be repeated."),
        ("--hint", "A scheduler hint; may be repeated, also with one key."),
    ):
        group.add_argument(option, action="append", type=pair, metavar="KEY=VALUE", help=text)
    add_host(group)
    add_volume_backed(group)


def add_host(parser: argparse._ActionsContainer) -> None:
    """Add the option that forces a host."""
    parser.add_argument(
        "--host", metavar="HOST", help="Use this host, without filters. Default: the best host."
    )


def request(args: argparse.Namespace) -> RequestSpec:
    """Return the request that the options describe.

    :raises InvalidRequest: names each invalid option.
    """
    document: dict[str, Any] = {
        "flavor": {**fields(args, FLAVOR), **mapping("extra_specs", "--property", args.property)},
        "image": mapping("properties", "--image-property", args.image_property),
        "is_bfv": bool(args.volume_backed),
        "scheduler_hints": hints(args.hint or ()),
        **fields(args, _SPEC),
    }
    if args.host is not None:
        document["force_hosts"] = [args.host]
    return _checked("server build", document, RequestSpec, _PATHS)


def new_flavor(args: argparse.Namespace, old: Flavor) -> Flavor:
    """Return a flavor with the fields that options were given for; the others stay.

    :raises InvalidRequest: names each invalid option.
    """
    specs = dict(old.extra_specs) | dict(args.property or ())
    document = {**msgspec.to_builtins(old), **fields(args, FLAVOR), "extra_specs": specs}
    paths = {path.replace("$.flavor", "$", 1): option for path, option in _PATHS.items()}
    return _checked("server resize", document, Flavor, paths)


def domain_document(args: argparse.Namespace) -> str | None:
    """Return the domain document that was named, or None.

    :raises InvalidRequest: it cannot be read, or is none.
    """
    if args.domain is None:
        return None
    try:
        root = parse(Path(args.domain).read_bytes())
        if root.tag != "domain":
            raise BadDocument(f"the root element is <{root.tag}>, not <domain>")
        return etree.tostring(root, encoding="unicode")
    except (OSError, BadDocument) as error:
        rule = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise InvalidRequest.at("server build", "--domain", rule) from error


def _checked(
    method: str, document: Mapping[str, Any], type_: Any, options: Mapping[str, str]
) -> Any:
    with naming(options):
        try:
            return Converter(type_).convert(document)  # a command has one thread
        except msgspec.ValidationError as refusal:
            found = schema_errors(msgspec.json.schema(type_), document) or [("$", str(refusal))]
            errors = [{"path": path, "message": message} for path, message in found]
            raise InvalidRequest(method=method, errors=errors) from refusal
