"""What no claim gets while it is unknown what running domains have of it."""

import json

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.lifecycle.attach import claim_pci_devices
from rtagent.model.decision import Granted, ReasonCode
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.request import Image
from rtagent.scheduler.replica import replica_for, replica_of
from rtagent.scheduler.report import description_of, digest_of, instances_of, report_of
from rtagent.scheduler.report_documents import report_document, report_from
from tests.support.device_states import PMEM, SEV, VGPU_TYPE, attaching, built, device_host, policy
from tests.support.hosts import NOON, PINNED, TOPOLOGY, call, domain_usage, observed, request, uid
from tests.support.pci_hosts import GPU_0, gpu, record
from tests.support.random_nodes import GPUS

OWNER, OTHER = uid(1), uid(2)
UEFI = {"image": Image(properties={"hw_firmware_type": "uefi"})}
#: Extra specs, and the kinds of which such claims need something.
CLAIMS = [
    ({}, "sizes"),
    (PINNED, "cells cpus sizes"),
    ({"hw:numa_nodes": "1"}, "cells sizes"),
    ({"hw:mem_page_size": "small"}, "cells sizes"),
    ({"hw:mem_page_size": "4"}, "cells sizes"),
    ({"hw:mem_page_size": "large"}, "cells pages sizes"),
    ({"hw:mem_page_size": "any"}, "cells pages sizes"),
    ({"hw:mem_page_size": "2MB"}, "cells pages sizes"),
    ({"pci_passthrough:alias": "gpu:1"}, "devices sizes"),
    ({"resources:VGPU": "1"}, "devices sizes"),
    ({"hw:pmem": "4GB"}, "cells devices sizes"),
    ({"hw:mem_encryption": "true"}, "encryption sizes"),
]
PCI = policy(pmem=(PMEM,), mdev_types=(VGPU_TYPE,))
HOST = device_host(record([gpu(GPU_0, 0), GPUS[0]]), pci=PCI)
HOST = replace(HOST, topology=replace(TOPOLOGY, mem_encryption=(SEV,)))


def unknown(state, *kinds, owner=OTHER, active=True):
    """The state with a domain of which these kinds are unknown."""
    occupancy = Occupancy(unknown=frozenset(kinds))
    return observed(state, domain_usage(owner, 0, 0, active=active, occupancy=occupancy))


def decided(state, specs):
    """The decision on a claim of the owner, which is also that of the scheduler."""
    build = request(1, 1024, owner=OWNER, extra_specs=specs, instance=UEFI)
    description = description_of(state)
    document = report_document(report_of(state, digest_of(description)))
    replica = replica_of(report_from(json.loads(json.dumps(document))), description)
    if OWNER in (instances := instances_of(state)):
        replica = replica_for(replica, instances[OWNER])
    decision = claims.instance_claim(state, call(operation_id=uid(3)), NOON, build)
    assert decision == claims.instance_claim(replica, call(operation_id=uid(3)), NOON, build)
    return decision


@pytest.mark.parametrize("kind", sorted(HostResource))
@pytest.mark.parametrize(("specs", "needs"), CLAIMS)
def test_claim_gets_nothing_of_what_is_unknown_of_another_domain(kind, specs, needs):
    assert isinstance(decided(HOST, specs), Granted)
    decision = decided(unknown(HOST, kind), specs)
    if kind not in needs.split():
        assert isinstance(decision, Granted)
        return
    (reason,) = decision.reasons
    assert (reason.code, reason.available) == (ReasonCode.UNKNOWN_USAGE, 0)
    assert f"domain {OTHER} (vm)" in str(reason)


def test_domain_that_is_only_defined_withholds_nothing():
    assert isinstance(decided(unknown(HOST, *HostResource, active=False), PINNED), Granted)


def test_domain_withholds_nothing_from_its_own_claim():
    assert isinstance(decided(unknown(HOST, *HostResource, owner=OWNER), PINNED), Granted)


def test_refusal_names_one_domain_and_counts_the_others():
    state = unknown(unknown(HOST, HostResource.CPUS), HostResource.CPUS, owner=uid(9))
    (reason,) = decided(state, PINNED).reasons
    assert f"{OTHER} (vm) and of 1 more" in str(reason)


def test_no_device_is_attached_while_it_is_unknown_what_another_domain_has():
    state, main = built(HOST)
    state = unknown(state, HostResource.DEVICES)
    (reason,) = claim_pci_devices(state, call(), NOON, attaching(main, "gpu")).reasons
    assert (reason.code, reason.resource) == (ReasonCode.UNKNOWN_USAGE, "devices")
