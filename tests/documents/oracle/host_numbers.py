"""What a domain document names of its host [formatdomain]: after a move, all of it is another
host's."""

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from tests.documents.oracle.devices import devices
from tests.documents.oracle.domain import DEFAULT_PAGE
from tests.documents.oracle.values import KIB, decimal, members, size


def host_numbers(domain: Element) -> dict[str, set[Any]]:
    """Return the CPUs, the cells, the huge pages (KiB), the caches and the devices."""
    return {
        "cpus": set(_cpus(domain)),
        "cells": set(_cells(domain)),
        "pages": set(_pages(domain)),
        "caches": {each.get("id") for each in domain.iterfind("cputune/cachetune/cache")},
        "devices": devices(domain),
    }


def _cpus(domain: Element) -> Iterator[int]:
    for element in (*domain.iterfind("vcpu"), *domain.iterfind("cputune/*")):
        if element.get("cpuset") is not None:
            yield from members(element.get("cpuset"))


def _cells(domain: Element) -> Iterator[int]:
    for element in domain.iterfind("numatune/*"):
        if element.get("nodeset") is not None:
            yield from members(element.get("nodeset"))
    for mask in domain.iterfind("devices/memory/source/nodemask"):
        yield from members(mask.text)
    for node in domain.iterfind("cputune/memorytune/node"):
        yield decimal(node.get("id"))


def _pages(domain: Element) -> Iterator[int]:
    backing = domain.find("memoryBacking/hugepages")
    if backing is not None and not len(backing):
        yield DEFAULT_PAGE
    for page in domain.iterfind("memoryBacking/hugepages/page"):
        yield size(page, "size") // KIB
    for page in domain.iterfind("devices/memory/source/pagesize"):
        yield size(page) // KIB
