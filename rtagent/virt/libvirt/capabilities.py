"""Parse the host part of a capabilities document. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from lxml import etree

from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU
from rtagent.virt.libvirt.document import BadDocument, integer, parse, text


class HostCapabilities(Value, frozen=True, kw_only=True):
    """The host as libvirt describes it.

    :ivar host_uuid: libvirt's host uuid, or "". :ivar cpus: ids of the online CPUs.
    :ivar hyperthreading: whether any core has more than one thread online.
    :ivar cpu: the ``<cpu>`` document.
    :ivar cpu_info: arch, model, vendor, topology, and the features beyond those that the model
        implies.
    :ivar guests: (arch, hypervisor type, vm mode) of each supported type of guest.
    """

    host_uuid: str
    arch: str
    cpus: frozenset[int]
    hyperthreading: bool
    cpu: str
    cpu_info: Mapping[str, Any]
    guests: tuple[tuple[str, str, str], ...]


def parse_capabilities(document: str | bytes) -> HostCapabilities:
    """:raises BadDocument: names the missing or invalid part."""
    root = parse(document)
    host, cpu = root.find("host"), root.find("host/cpu")
    if root.tag != "capabilities" or host is None or cpu is None:
        raise BadDocument("it has no <capabilities> with a <host> and its <cpu>")
    siblings = dict(_siblings(host))
    return HostCapabilities(
        host_uuid=_uuid(text(host, "uuid", "")),
        arch=text(cpu, "arch"),
        cpus=frozenset(siblings),
        hyperthreading=any(others != str(cpu_id) for cpu_id, others in siblings.items()),
        cpu=etree.tostring(cpu, encoding="unicode", with_tail=False),
        cpu_info=_cpu_info(host, cpu),
        guests=tuple(_guests(root)),
    )


def feature_names(cpu: etree._Element) -> frozenset[str]:
    """Return the features that a ``<cpu>`` element requires or forces."""
    return frozenset(
        feature.get("name", "")
        for feature in cpu.iterfind("feature")
        if feature.get("policy", "require") in ("require", "force")
    )


def _uuid(written: str) -> str:
    # The name of a lock file contains it.
    try:
        return str(UUID(written)) if written else ""
    except ValueError as error:
        raise BadDocument(f"<uuid> of <host> is {written!r}, not a uuid") from error


def _siblings(host: etree._Element) -> Iterator[tuple[int, str]]:
    """Yield each online CPU with its ``siblings``; libvirt has none for an offline CPU."""
    for cpu in host.iterfind("topology/cells/cell/cpus/cpu"):
        siblings = cpu.get("siblings")
        if siblings is not None:
            with suppress(BadDocument):  # `parse_cells` reports it
                yield integer(cpu.get("id"), "<cpu id>", MAX_CPU), siblings


def _cpu_info(host: etree._Element, cpu: etree._Element) -> dict[str, Any]:
    topology = cpu.find("topology")
    counts = {} if topology is None else {str(k): str(v) for k, v in topology.attrib.items()}
    return {
        "arch": text(cpu, "arch"),
        "model": text(cpu, "model", ""),
        "vendor": text(cpu, "vendor", ""),
        "topology": {
            "cells": len(host.findall("topology/cells/cell")),
            **{name: integer(value, f"<topology {name}>") for name, value in counts.items()},
        },
        "features": sorted(feature_names(cpu)),
        **_address_bits(cpu),
    }


def _address_bits(cpu: etree._Element) -> dict[str, Any]:
    """How many physical address bits guests can have, for Nova's image property
    ``hw_maxphysaddr_bits``; empty: libvirt does not say.
    """
    addresses = cpu.find("maxphysaddr")
    if addresses is None or addresses.get("bits") is None:
        return {}
    bits = integer(addresses.get("bits"), "<maxphysaddr bits>")
    return {"maxphysaddr": {"mode": addresses.get("mode", ""), "bits": bits}}


def _guests(root: etree._Element) -> Iterator[tuple[str, str, str]]:
    for guest in root.iterfind("guest"):
        for arch in guest.iterfind("arch"):
            for domain in arch.iterfind("domain"):
                yield arch.get("name", ""), domain.get("type", ""), text(guest, "os_type")
