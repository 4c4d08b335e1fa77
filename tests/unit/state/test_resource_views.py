"""Resource views: the lines that operators search the log for."""

from rtagent.state.resource_views import resource_views
from tests.support.hosts import host, request
from tests.support.owned_hosts import devices_in_every_state
from tests.unit.state.test_compute_node import with_claim


def test_views_have_novas_words():
    state = with_claim(host(reserved_memory_mb=512, reserved_disk_mb=1024), request(2, 1024, 10))
    assert resource_views(state) == {
        "Hypervisor resource view": (
            "name=cn1.example phys_ram=16384MB phys_disk=100GB cpus=8 numa_cells=2 pci_devices=0"
        ),
        "Hypervisor/Node resource view": (
            "name=cn1.example free_ram=14848MB free_disk=89GB free_vcpus=6 pci_devices=0"
        ),
        "Final resource view": (
            "name=cn1.example phys_ram=16384MB used_ram=1536MB phys_disk=100GB used_disk=11GB"
            " total_vcpus=8 used_vcpus=2 pci_stats=[] running_vms=1"
        ),
    }


def test_devices_are_counted_by_pool():
    views = resource_views(devices_in_every_state())
    assert views["Hypervisor resource view"].endswith("pci_devices=10")
    assert views["Hypervisor/Node resource view"].endswith("pci_devices=1")
    assert "pci_stats=[" in views["Final resource view"]
    assert "=1/" in views["Final resource view"]


def test_there_is_no_view_before_the_host_was_observed():
    assert resource_views(host(None)) == {}
