"""What a database shows of devices, whichever it is.

A test module derives a class from this and brings the fixture `engine`.
"""

import logging
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, select, update

from rtagent.compute_node import pci_device_pools
from rtagent.db.schema import compute_nodes, pci_devices
from rtagent.db.store import SqlStore
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE
from rtagent.model.numa_usage import Occupancy
from rtagent.model.specific import SpecificUnit
from tests.unit.db.cases import commit, enrolled, holds
from tests.unit.db.values import (
    NODE,
    NOW,
    created,
    device,
    devices,
    given,
    holding,
    moved,
    released,
)

GPU, OTHER = device(8), device(9)
#: One IOMMU group.
TWINS = tuple(replace(each, device=replace(each.device, iommu_group=7)) for each in (GPU, OTHER))


def shown(engine: Engine) -> dict[str, tuple[Any, ...]]:
    """Status, holder and request, by address."""
    names = ("address", "status", "instance_uuid", "request_id")
    with engine.begin() as connection:
        rows = connection.execute(select(*(pci_devices.c[name] for name in names)))
        return {address: tuple(rest) for address, *rest in rows}


def pools_shown(engine: Engine) -> str:
    with engine.begin() as connection:
        return str(connection.scalar(select(compute_nodes.c.pci_device_pools)))


class DeviceRowCases:
    def test_a_device_is_shown_with_what_nova_tells_of_it(self, engine: Engine):
        store = SqlStore(engine)
        commit(store, enrolled(store), devices(GPU))
        with engine.begin() as connection:
            row = connection.execute(select(pci_devices)).one()
        assert (row.node_uuid, row.address, row.dev_id) == (
            NODE.uuid,
            GPU.address,
            "pci_0000_08_00_0",
        )
        assert (row.vendor_id, row.product_id, row.dev_type) == ("10de", "13f1", "type-PCI")
        assert (row.label, row.numa_node, row.parent_addr) == ("label_10de_13f1", None, None)
        assert (row.status, row.instance_uuid, row.request_id) == ("available", None, None)

    def test_who_holds_a_device_is_shown_and_what_that_means_for_others(self, engine: Engine):
        store = SqlStore(engine)
        claim = given(1, TWINS[0])
        state = commit(store, enrolled(store), devices(*TWINS), created(claim))
        mine = (claim.owner_id, "request 1")
        assert shown(engine) == {
            GPU.address: ("claimed", *mine),
            OTHER.address: ("unclaimable", None, None),
        }
        state = commit(store, state, moved(claim, state=ACTIVE, expires_at=None))
        assert shown(engine) == {
            GPU.address: ("allocated", *mine),
            OTHER.address: ("unavailable", None, None),
        }
        state = commit(store, state, released(state.claims[claim.uuid]))
        assert {status for status, *_ in shown(engine).values()} == {"available"}
        holds(store, state)

    def test_a_device_in_a_domain_without_a_claim_is_shown_as_that_domains(self, engine: Engine):
        store = SqlStore(engine)
        state = commit(store, enrolled(store), devices(GPU))
        domain = holding(1, occupancy=Occupancy(devices=frozenset({GPU.address})))
        state = commit(store, state, Change(cause="audit", at=NOW, holdings=(domain,)))
        assert shown(engine) == {GPU.address: ("allocated", domain.domain_uuid, None)}
        commit(store, state, Change(cause="audit", at=NOW, unholdings=(domain.domain_uuid,)))
        assert shown(engine) == {GPU.address: ("available", None, None)}

    def test_a_domain_without_a_claim_that_lets_go_of_a_device_has_it_no_more(self, engine: Engine):
        store = SqlStore(engine)
        state = commit(store, enrolled(store), devices(GPU))
        domain = holding(1, occupancy=Occupancy(devices=frozenset({GPU.address})))
        for its in (domain, replace(domain, occupancy=Occupancy())):
            state = commit(store, state, Change(cause="audit", at=NOW, holdings=(its,)))
        assert shown(engine) == {GPU.address: ("available", None, None)}
        assert '"count":1' in pools_shown(engine)

    def test_a_device_of_which_a_part_is_held_is_shown_so(self, engine: Engine):
        store = SqlStore(engine)
        state = commit(store, enrolled(store), devices(GPU))
        part = SpecificUnit(provider=GPU.address, resource_class="VGPU", identifier="a part")
        claim = replace(given(1), resources=(part,))
        state = commit(store, state, created(claim))
        assert shown(engine) == {GPU.address: ("claimed", claim.owner_id, None)}
        assert pools_shown(engine) == "[]"
        commit(store, state, released(state.claims[claim.uuid]))
        assert shown(engine) == {GPU.address: ("available", None, None)}

    def test_the_nodes_pools_count_what_is_to_be_had(self, engine: Engine):
        store = SqlStore(engine)
        state = commit(store, enrolled(store), devices(GPU, OTHER), created(given(1, GPU)))
        (pool,) = pci_device_pools(state)
        assert pool["count"] == 1
        assert '"count":1' in pools_shown(engine)

    def test_a_record_that_cannot_be_read_is_kept_back(
        self, engine: Engine, caplog: pytest.LogCaptureFixture
    ):
        store = SqlStore(engine)
        commit(store, enrolled(store), devices(GPU, OTHER))
        with engine.begin() as connection:
            its = update(pci_devices).where(pci_devices.c.address == GPU.address)
            connection.execute(its.values(extra_info="{"))
        with caplog.at_level(logging.ERROR):
            state = enrolled(store)
        assert GPU.address in caplog.text
        assert "cannot be read" in (state.devices[GPU.address].quarantine or "")
        assert state.devices[OTHER.address] == OTHER
        state = commit(store, state, devices(GPU))
        holds(store, state)
