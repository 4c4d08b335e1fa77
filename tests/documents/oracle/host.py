"""Documents of hosts: their capabilities [formatcaps], and those of their guests
[formatdomaincaps]."""

from typing import Any
from xml.etree.ElementTree import Element

from tests.documents.oracle.values import KIB, MIB, decimal, members, size


def capabilities(document: Element) -> dict[str, Any]:
    cpus = document.findall("host/topology/cells/cell/cpus/cpu")
    online = {cpu.get("id"): members(cpu.get("siblings")) for cpu in cpus if cpu.get("siblings")}
    return {
        "host_uuid": document.findtext("host/uuid") or "",
        "arch": document.findtext("host/cpu/arch"),
        "model": document.findtext("host/cpu/model") or "",
        "vendor": document.findtext("host/cpu/vendor") or "",
        "features": {each.get("name") for each in document.iterfind("host/cpu/feature")},
        "cpus": {decimal(name) for name in online},
        "hyperthreading": any(len(threads) > 1 for threads in online.values()),
        "guests": {
            (arch.get("name"), domain.get("type"), guest.findtext("os_type"))
            for guest in document.iterfind("guest")
            for arch in guest.iterfind("arch")
            for domain in arch.iterfind("domain")
        },
        "cells": {
            decimal(each.get("id")): _cell(each)
            for each in document.iterfind("host/topology/cells/cell")
        },
    }


def _cell(cell: Element) -> dict[str, Any]:
    online = [cpu for cpu in cell.iterfind("cpus/cpu") if cpu.get("siblings")]
    numbers = {decimal(cpu.get("id")) for cpu in online}
    memory = cell.find("memory")
    return {
        "cpus": numbers,
        "offline": {decimal(cpu.get("id")) for cpu in cell.iterfind("cpus/cpu")} - numbers,
        "memory_mb": 0 if memory is None else size(memory) // MIB,
        "siblings": {frozenset(members(cpu.get("siblings")) & numbers) for cpu in online},
        "sockets": {decimal(cpu.get("socket_id")) for cpu in online},
        "distances": {
            decimal(each.get("id")): decimal(each.get("value"))
            for each in cell.iterfind("distances/sibling")
        },
        "pages": {size(each, "size") // KIB: decimal(each.text) for each in cell.iterfind("pages")},
    }


def encryption(document: Element) -> dict[str, tuple[int | None, ...]]:
    """Return the bit, the lost bits and the number of guests of each model ["SEV capabilities"]."""
    found = {}
    for sev in document.iterfind("features/sev[@supported='yes']"):
        for model, tag in (("amd-sev", "maxGuests"), ("amd-sev-es", "maxESGuests")):
            values = (_number(sev, name) for name in ("cbitpos", "reducedPhysBits", tag))
            found[model] = tuple(values)
    return {model: values for model, values in found.items() if values[2]}


def _number(element: Element, tag: str) -> int | None:
    text = element.findtext(tag)
    return None if text is None else decimal(text)


def buses(document: Element) -> set[str]:
    """Return the buses of disks."""
    return {each.text or "" for each in document.iterfind("devices/disk/enum[@name='bus']/value")}
