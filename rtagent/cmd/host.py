"""rtagent host: simulated hosts for libvirt's test driver."""

import argparse
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rtagent.cmd.base import Action, Row, Text
from rtagent.model.units import parse_size
from rtagent.virt.simulate import Machine, SimulationError, domain_xml, edit, host_uri, simulate

_K = TypeVar("_K")

#: The size of each domain of ``--domains``.
VCPUS, MEMORY_MB = 1, 64
#: What is counted, by the field of `Machine`, and the domains.
NUMBERS = {
    "sockets": "CPU sockets",
    "cores": "cores of each socket",
    "threads": "threads of each core",
    "memory_mb": "MB of memory",
    "gpus": "GPUs (Quadro M4000, 10de:13f1)",
    "shared_gpus": "GPUs with mediated devices (Tesla T4, 10de:1eb8; four of nvidia-222 each)",
    "nics": "network cards with SR-IOV (XL710, 8086:1583)",
    "vfs": "virtual functions of each network card (8086:154c)",
    "nvmes": "NVMe controllers (1b36:0010)",
    "sev_guests": "guests with memory encrypted by AMD SEV",
    "sev_es_guests": "guests with memory encrypted by SEV-ES",
    "sev_snp_guests": "guests with memory encrypted by SEV-SNP, instead of SEV-ES",
    "tdx_guests": "guests with memory encrypted by Intel TDX",
    "domains": f"running domains, of {VCPUS} vCPU and {MEMORY_MB} MB each",
}


class HostSimulate(Text):
    """Write a simulated host to a file.

    FILE is a host for libvirt's test driver. FILE.capabilities.xml contains what that driver does
    not report. The command prints the URI for [libvirt] connection_uri.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="The new file.")
        for field, what in NUMBERS.items():
            parser.add_argument(
                f"--{field.removesuffix('_mb').replace('_', '-')}",
                dest=field,
                metavar="N",
                type=int,
                default=getattr(Machine(), field, 0),
                help=f"The number of {what}. Default: %(default)s.",
            )
        parser.add_argument(
            "--cells", metavar="N", type=int, help="The number of NUMA cells. Default: sockets."
        )
        parser.add_argument(
            "--pages",
            metavar="SIZE=N",
            type=_pages,
            action="append",
            default=[],
            help="Set N huge pages of this size aside in each cell. SIZE is in KiB, or has a unit:"
            " 2MB. May be repeated.",
        )
        parser.add_argument(
            "--namespace",
            metavar="NAME=MB",
            type=_namespace,
            action="append",
            default=[],
            help="Add a persistent memory namespace of this name and size. May be repeated.",
        )
        parser.add_argument(
            "--hostname",
            default=Machine().hostname,
            help="The name of the host. Default: %(default)s.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        file: Path = parsed_args.file
        if os.path.exists(file):  # false for a name that is too long, which is refused below
            raise SimulationError(
                f"{file} exists: remove it first, or change it by `rtagent host simulate edit`"
            )
        numbers = {field: getattr(parsed_args, field) for field in NUMBERS}
        domains = numbers.pop("domains")
        machine = Machine(
            cells=parsed_args.cells,
            pages=_once("--pages", parsed_args.pages),
            hostname=parsed_args.hostname,
            namespaces=_once("--namespace", parsed_args.namespace),
            **numbers,
        )
        if domains < 0:
            raise SimulationError(f"domains = {domains}: it must be at least 0")
        simulate(file, machine, map(_domain, range(domains)))
        return ("file", "uri"), (str(file), host_uri(file))


class HostSimulateEdit(Action):
    """Change a simulated host.

    All changes are made at once, or none. An agent that watches the host sees domains and devices
    come and go as on a real host.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="The file of the host.")
        for option, metavar, what in (
            ("--remove-domain", "UUID", "Remove this domain."),
            ("--remove-device", "NAME", "Remove this node device."),
            ("--add-domain", "XML", "Add this domain: a document, or a file that contains it."),
            ("--add-device", "XML", "Add this node device: a document, or a file."),
        ):
            parser.add_argument(
                option,
                metavar=metavar,
                action="append",
                default=[],
                help=f"{what} May be repeated.",
            )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        domains = [_document(name) for name in parsed_args.add_domain]
        devices = [_document(name) for name in parsed_args.add_device]
        with edit(parsed_args.file) as host:
            for domain_uuid in parsed_args.remove_domain:
                host.remove_domain(domain_uuid)
            for name in parsed_args.remove_device:
                host.remove_device(name)
            for document in domains:
                host.add_domain(document)
            for document in devices:
                host.add_device(document)


def _once(option: str, pairs: Sequence[tuple[_K, int]]) -> Mapping[_K, int]:
    """Return the pairs by their first part. :raises SimulationError: two have the same."""
    numbers = dict(pairs)
    if len(numbers) < len(pairs):
        raise SimulationError(f"{option}: a size or name is given more than once")
    return numbers


def _pages(text: str) -> tuple[int, int]:
    """Return the size in KiB and the number."""
    size, _, number = text.partition("=")
    try:
        return parse_size(size), int(number)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not SIZE=N: {error}") from error


def _namespace(text: str) -> tuple[str, int]:
    """Return the name and the size in MB."""
    name, _, size = text.rpartition("=")
    try:
        return name, int(size)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=MB: {error}") from error


def _document(text: str) -> str | bytes:
    """Return a document that is given itself or as the name of a file, which says its encoding."""
    if text.lstrip().startswith("<"):
        return text
    try:
        return Path(text).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: NUL in the name
        raise SimulationError(f"{text}: {getattr(error, 'strerror', None) or error}") from error


def _domain(number: int) -> str:
    name = f"simulated-{number}"
    return domain_xml(
        str(uuid.uuid5(uuid.NAMESPACE_URL, name)), vcpus=VCPUS, memory_mb=MEMORY_MB, name=name
    )
