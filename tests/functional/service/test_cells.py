"""A host with two cells, one of which is near to the networks: claims over RabbitMQ, moves, and the
node's record."""

import uuid

import pytest
from lxml import etree
from oslo_context.context import RequestContext

from rtagent.errors import ComputeResourcesUnavailable, InvalidRequest
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.servers.daemon import Daemon, wait_until

CONTEXT = RequestContext(user_id="tester")
NUMA = {"hw:numa_nodes": "1"}
PINNED = {"hw:cpu_policy": "dedicated"}
FOO = {"network_metadata": {"physnets": ["foo"]}}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, rabbitmq_server):
    directory = tmp_path_factory.mktemp("cells")
    simulate(directory / "host.xml", Machine(sockets=2, cores=4, threads=1, memory_mb=16384))
    config = {
        "DEFAULT": {"host": f"host-{uuid.uuid4()}", "ram_allocation_ratio": 0.9},
        "compute": {"cpu_shared_set": "0,4", "cpu_dedicated_set": "1-3,5-7"},
        "neutron": {"physnets": "foo"},
        "neutron_physnet_foo": {"numa_nodes": "1"},
        "neutron_tunnel": {"numa_nodes": "0"},
    }
    uri = host_uri(directory / "host.xml")
    with Daemon(directory, rabbitmq_server.transport_url, uri=uri, config=config) as made:
        yield made.wait_ready()


@pytest.fixture
def api(agent):
    yield agent
    for claim in agent.get_claims_for_host(CONTEXT)["claims"]:
        agent.release_claim(CONTEXT, claim["uuid"])


def instance(memory_mb=64, vcpus=1, specs=NUMA) -> dict:
    flavor = {"vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 0, "extra_specs": specs}
    return {"uuid": str(uuid.uuid4()), "flavor": flavor}


def cells(claim: dict) -> list[int]:
    return [cell["id"] for cell in claim["numa_topology"]["cells"]]


def test_ratio_limits_memory_in_the_smallest_pages(api):
    for specs in (NUMA, {"hw:mem_page_size": "small"}, {"hw:mem_page_size": "4"}):
        with pytest.raises(ComputeResourcesUnavailable, match="8192 MB requested at cell 0, 7372"):
            api.instance_claim(CONTEXT, instance(8192, specs=specs))
        assert api.test_claim(CONTEXT, instance(7372, specs=specs))["granted"]


def test_record_counts_memory_without_a_page_size_in_pages(api):
    (cell,) = cells(api.instance_claim(CONTEXT, instance(1024)))
    record = api.get_node(CONTEXT)["node"]["numa_topology"]["cells"]
    used = [{page["size_kb"]: page["used"] for page in each["mempages"]} for each in record]
    assert [each[4] for each in used] == [262144 if n == cell else 0 for n in (0, 1)]
    assert [each["network_metadata"] for each in record] == [
        {"physnets": [], "tunneled": True},
        {"physnets": ["foo"], "tunneled": False},
    ]


def test_claims_of_builds_and_moves_are_near_to_their_networks(api):
    limits = {"numa_topology": FOO}
    built = api.instance_claim(CONTEXT, instance(), limits=limits)
    assert (cells(built), cells(api.instance_claim(CONTEXT, instance()))) == ([1], [0])
    assert built["limits"]["numa_topology"]["network_metadata"] == {
        "physnets": ["foo"],
        "tunneled": False,
    }
    other = {"physnets": ["other"], "tunneled": True}
    for call, more in (
        (api.resize_claim, {"flavor": instance(128)["flavor"]}),
        (api.live_migration_claim, {}),
        (api.rebuild_claim, {}),
    ):
        assert cells(call(CONTEXT, instance(), limits=limits, **more)) == [1]
        away = {"numa_topology": {"network_metadata": other}}
        assert cells(call(CONTEXT, instance(), limits=away, **more)) == [0]


def test_refusal_names_the_network_and_its_cells(api):
    guest = instance(vcpus=3, specs=PINNED)
    api.instance_claim(CONTEXT, guest, limits={"numa_topology": FOO})
    with pytest.raises(ComputeResourcesUnavailable) as refused:
        far = instance(specs=PINNED)
        api.instance_claim(CONTEXT, far, limits={"numa_topology": FOO})
    assert {reason["message"] for reason in refused.value.kwargs["reasons"]} == {
        "NUMA affinity of physical network foo: 1 guest cells requested at cells 1, 0 available",
        "PCPU: 1 CPUs requested at cell 1, 0 available",
    }
    with pytest.raises(InvalidRequest, match=r"network_metadata\.physnets"):
        wrong = {"numa_topology": {"network_metadata": {"physnets": "foo"}}}
        api.instance_claim(CONTEXT, instance(), limits=wrong)


def test_shared_emulator_of_a_realtime_guest_runs_beside_vcpu_0(api):
    realtime = {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}
    specs = {**PINNED, **realtime, "hw:emulator_threads_policy": "share"}
    claim = api.instance_claim(CONTEXT, instance(vcpus=2, specs=specs))
    guest = etree.fromstring(f"<guest>{claim['guest']}</guest>")
    assert guest.find("cputune/emulatorpin").get("cpuset") == "0,4"


def test_memory_in_files_replaces_the_memory_of_the_host(daemon, api):
    normal = {
        "DEFAULT": {"ram_allocation_ratio": 0.9, "reserved_host_memory_mb": 512},
        "libvirt": {"file_backed_memory": 0},
    }
    exact = {"ram_allocation_ratio": 1.0, "reserved_host_memory_mb": 0}
    daemon.configure({"DEFAULT": exact, "libvirt": {"file_backed_memory": 65536}})
    daemon.reload()
    try:
        wait_until(lambda: api.get_node(CONTEXT)["node"]["memory_mb"] == 65536)
        claim = api.instance_claim(CONTEXT, instance(60000, specs={}))
        assert api.get_node(CONTEXT)["node"]["free_ram_mb"] == 65536 - 60000
        guest = etree.fromstring(f"<guest>{claim['guest']}</guest>")
        assert guest.find("memoryBacking/source").get("type") == "file"
        assert claim["numa_topology"]["file_backed"]
        with pytest.raises(ComputeResourcesUnavailable, match="large pages: 64 MB requested at"):
            api.instance_claim(CONTEXT, instance(specs={"hw:mem_page_size": "large"}))
        with pytest.raises(ComputeResourcesUnavailable, match="9000 MB requested at cell 0"):
            api.instance_claim(CONTEXT, instance(9000))
    finally:
        daemon.configure(normal)
        daemon.reload()
        wait_until(lambda: api.get_node(CONTEXT)["node"]["memory_mb"] == 16384)
