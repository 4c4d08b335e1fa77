"""The read API's documents of a database with several nodes."""

import msgspec
import pytest

from rtagent import errors
from rtagent.cmd.offline import OfflineReader
from rtagent.model.request import Flavor
from tests.support.api_states import NODE, POLICY, TOPOLOGY, claimed, empty, populated, uuid
from tests.support.owned_hosts import devices_in_every_state
from tests.support.pci_hosts import GPU_0

OTHER = msgspec.structs.replace(NODE, uuid=uuid(8), hypervisor_hostname="kvm-8.example")


def other():
    state = msgspec.structs.replace(empty(), node=OTHER, policy=POLICY, topology=TOPOLOGY)
    return claimed(state, 5)


@pytest.fixture
def reader():
    return OfflineReader([populated(), other()])


def test_collections_contain_the_items_of_all_nodes(reader):
    assert [node["uuid"] for node in reader.get("nodes")["nodes"]] == [NODE.uuid, OTHER.uuid]
    assert [claim["uuid"] for claim in reader.get("claims")["claims"]] == list(map(uuid, (1, 2, 5)))
    assert len(reader.get("orphans")["orphans"]) == len(reader.get("drift")["drift"]) == 1
    building = reader.get("claims", state="building", instance=None)["claims"]
    assert [claim["uuid"] for claim in building] == [uuid(2), uuid(5)]


def test_the_capacity_of_each_node_has_the_flavors_of_its_claims_and_of_the_file():
    flavor = Flavor(name="listed", vcpus=1, memory_mb=64)
    found = OfflineReader([populated(), other()], [flavor]).get("capacity")["capacity"]
    assert [host["uuid"] for host in found] == [NODE.uuid, OTHER.uuid]
    for host in found:
        assert [row["name"] for row in host["flavors"]] == ["listed", "unnamed"]
        assert host["flavors"][0]["room"] > 0


@pytest.mark.parametrize(
    ("path", "uuid"),
    [
        *((("claims", uuid(number)), uuid(number)) for number in (1, 5)),
        *((("nodes", name), OTHER.uuid) for name in ("kvm-8.example", OTHER.uuid)),
        (("nodes", "kvm-7.example"), NODE.uuid),
    ],
)
def test_an_item_is_found_on_any_node(reader, path, uuid):
    assert reader.get(*path)[path[0].removesuffix("s")]["uuid"] == uuid


def test_devices_of_all_nodes_are_listed_and_can_be_filtered_by_node():
    state = devices_in_every_state()
    other_node = msgspec.structs.replace(state.node, uuid=uuid(8), hypervisor_hostname="kvm-8")
    reader = OfflineReader([state, msgspec.structs.replace(state, node=other_node)])
    there = reader.get("pci", address=GPU_0)["pci"]
    assert [device["node"] for device in there] == [state.node.hypervisor_hostname, "kvm-8"]
    assert len(reader.get("pci", address=GPU_0, node="kvm-8")["pci"]) == 1
    assert len(reader.get("resources")["resources"]) == 10


def test_errors_are_those_of_an_agent(reader):
    with pytest.raises(errors.ClaimNotFound):
        reader.get("claims", uuid(77))
    with pytest.raises(errors.NodeNotFound):
        reader.get("nodes", "a b/c")
    with pytest.raises(errors.PciDeviceNotFound):
        reader.get("pci", GPU_0)
    with pytest.raises(errors.InvalidRequest):
        reader.get("claims", state="gone")


def test_a_database_without_nodes_is_an_error():
    with pytest.raises(errors.RtAgentError, match="has no node"):
        OfflineReader([]).get("claims")
