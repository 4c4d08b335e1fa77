"""Checks of CPU sets and device specifications against the host: at start, reload and later."""

import json

import pytest
from immutables import Map
from msgspec.structs import replace

from rtagent.errors import ConfigError, ProviderFileError
from rtagent.model.device import PciDevices
from rtagent.model.policy import NetworkPolicy, NumaPolicy, PciPolicy, Policy
from rtagent.pci.specs import parse_specs
from rtagent.placement.offers import Offers, resolve
from rtagent.service.host_checks import HostChecks, ProviderFileChecks
from tests.support.claims import pinned_claim
from tests.support.device_states import NAMESPACES, PMEM, built, device_host, policy
from tests.support.hosts import NODE, host, with_claims
from tests.support.numa_hosts import NO_SMT, cell, topology
from tests.support.owned_hosts import WEB_CLAIM, devices_in_every_state
from tests.support.pci_hosts import GPU_0, PF_0, PF_IDS, SPECS, VF_IDS, nic, vf
from tests.support.provider_files import CLASS, entry, provider_files


class Host:
    """The state and the devices of the moment, the checks, and what they report."""

    def __init__(self, world, state, devices=None, namespaces=None) -> None:
        self.state, self.devices, self.namespaces = state, devices, namespaces
        self.auditor = self
        self.errors, self.notes = world.events.errors, world.notes
        self.checks = HostChecks(world.context, self)
        self.file_checks, self.offers = ProviderFileChecks(world.context, self), Offers()

    def offers_from(self, settings) -> Offers:
        return self.offers


# -- CPU sets --------------------------------------------------------------------------------------

#: Without CPU 7.
SECOND = replace(cell(1, cores=3, threads=1, first=4), offline=frozenset({7}))
LESS = topology(cell(0, threads=1), SECOND)


def cpu_policy(dedicated: set[int]) -> Policy:
    return Policy(numa=NumaPolicy(cpu_dedicated_set=frozenset(dedicated)))


def cpu_state(there=NO_SMT, claims=(), dedicated=frozenset({6, 7})):
    return with_claims(replace(host(there), policy=cpu_policy(dedicated)), claims)


def test_missing_cpu_that_is_allocated_is_a_warning(world):
    ours = Host(world, cpu_state(LESS, [pinned_claim(7)]))

    assert ours.checks.accept()

    assert ours.errors == []
    assert ours.notes.texts["cpus"] == (
        "warn: CPUs 7 are missing or offline, but stay allocated to their guests"
    )


# -- networks --------------------------------------------------------------------------------------


def network_state(cells, there=NO_SMT):
    networks = NetworkPolicy(physnets={"foo": frozenset(cells)})
    return replace(host(there), policy=Policy(numa=NumaPolicy(networks=networks)))


FAR = "[neutron_physnet_foo] numa_nodes = 2: this host has no NUMA cells 2, its cells are 0-1"


# -- device specifications -------------------------------------------------------------------------

CARD = tuple(nic(vfs=2))
#: It names the physical function, as one that is managed remotely.
REMOTE = {"address": PF_0, **PF_IDS, "remote_managed": "yes"}


def pci_policy(*specs: dict[str, str], **other) -> Policy:
    specs_ = parse_specs([json.dumps(each) for each in specs])
    return Policy(pci=PciPolicy(specs=specs_, **other))


NOTHING_HELD = replace(devices_in_every_state(), claims=Map(), owners=Map(), domain_usages=Map())


def pci_host(world, wanted: Policy, devices=CARD) -> Host:
    return Host(world, replace(NOTHING_HELD, policy=wanted), devices)


@pytest.mark.parametrize(
    "wanted",
    [
        # A virtual function of the card matches.
        pci_policy({"vendor_id": "8086", "one_time_use": "yes"}),
        # The card and its virtual functions match.
        pci_policy({"vendor_id": "8086"}, report_in_placement=True),
        # The virtual functions differ.
        pci_policy({**VF_IDS, "address": vf(0), "traits": "a"}, VF_IDS, report_in_placement=True),
        pci_policy({**PF_IDS, "remote_managed": "yes"}),
    ],
)
def test_devices_that_do_not_fit_never_stop_the_start(world, wanted):
    cards = [replace(each, card_serial_number="MT1") for each in CARD]
    ours = pci_host(world, wanted, cards)
    assert ours.checks.accept()
    ours.checks.check(wanted)


def test_missing_device_that_is_allocated_is_a_warning(world):
    state = devices_in_every_state()
    left = {address: each for address, each in state.devices.items() if address != GPU_0}
    ours = Host(world, replace(state, devices=PciDevices(left)), CARD)

    assert ours.checks.accept()

    assert WEB_CLAIM.resources[1].identifier == "ns_9"
    units = f"PCI device {GPU_0}, CUSTOM_PMEM_NAMESPACE_4GB ns_9"
    why = "missing or no longer configured, but still allocated to guests"
    assert ours.notes.texts["devices"] == f"warn: {why}: {units}"
    ours.state = NOTHING_HELD
    assert ours.checks.accept()
    assert ours.notes.texts["devices"] == "pass"


# -- persistent memory -----------------------------------------------------------------------------


def pmem_host(world, namespaces=NAMESPACES):
    return Host(world, device_host({}, pci=policy(pmem=(PMEM,))), (), namespaces)


def test_namespace_that_the_host_lacks_and_a_claim_has_is_not_fatal(world):
    ours = pmem_host(world, NAMESPACES[:1])
    ours.state, _ = built(ours.state, extra_resource={PMEM.resource_class: ("ns1",)})
    assert ours.checks.accept()
    assert (ours.errors, ours.notes.texts["namespaces"]) == ([], "pass")


def test_namespaces_that_cannot_be_listed_are_a_warning(world):
    ours = pmem_host(world, None)
    assert ours.checks.accept()
    assert ours.notes.texts["namespaces"] == "warn: cannot be listed"
    ours.namespaces = ()
    assert not ours.checks.accept()


# -- all of them -----------------------------------------------------------------------------------

#: By what is checked: a host that the configuration fits, and one that it does not fit.
FITTING = {
    "cpus": lambda world: Host(world, cpu_state()),
    "networks": lambda world: Host(world, network_state({0, 1})),
    "devices": lambda world: pci_host(world, Policy(pci=PciPolicy(specs=SPECS))),
    "namespaces": pmem_host,
}
MISFITS = {
    "cpus": (
        lambda world: Host(world, cpu_state(LESS)),
        "[compute] cpu_dedicated_set = 6-7: CPUs 7 are offline",
    ),
    "networks": (lambda world: Host(world, network_state({2})), FAR),
    "devices": (
        lambda world: pci_host(world, pci_policy({"address": GPU_0}, REMOTE)),
        "[pci] device_spec 1: remote_managed = yes: is supported only for virtual functions;"
        f" {PF_0} is a physical function",
    ),
    "namespaces": (
        lambda world: pmem_host(world, NAMESPACES[:1]),
        "[libvirt] pmem_namespaces = ns1: this host does not have it",
    ),
}


@pytest.mark.parametrize("part", MISFITS)
def test_what_stops_to_fit_the_host_later_is_a_warning(world, part):
    """A device that does not fit is left out instead."""
    make, mistake = MISFITS[part]
    ours, misfit = FITTING[part](world), make(world)
    fitting = ours.state, ours.devices, ours.namespaces
    assert ours.checks.accept()
    assert ours.notes.texts[part] == "pass"

    ours.state, ours.devices, ours.namespaces = misfit.state, misfit.devices, misfit.namespaces
    assert ours.checks.accept()
    assert ours.notes.texts[part].startswith("pass" if part == "devices" else f"warn: {mistake}")

    ours.state, ours.devices, ours.namespaces = fitting
    assert ours.checks.accept()
    assert (ours.errors, ours.notes.texts[part]) == ([], "pass")


def test_host_that_was_never_observed_allows_any_configuration(world):
    odd = replace(cpu_policy({99}), pci=pci_policy(REMOTE).pci)
    Host(world, network_state({2}, None)).checks.check(odd)


RESERVED = replace(cpu_policy({4}), reserved_cpus=2)
NETWORKS = (network_state({1}).policy, network_state({2}).policy)
NAMES = [
    device_host({}, pci=policy(pmem=(replace(PMEM, identifiers=(name,)),))).policy
    for name in ("ns0", "ns9")
]


@pytest.mark.parametrize(
    ("part", "good", "bad", "mistake"),
    [
        ("cpus", cpu_policy({4}), cpu_policy({4, 9}), "= 4,9: this host has no CPUs 9"),
        ("cpus", cpu_policy({4}), RESERVED, "reserved_host_cpus = 2"),
        ("networks", *NETWORKS, "this host has no NUMA cells 2"),
        ("devices", pci_policy({"address": PF_0}), pci_policy(REMOTE), "remote_managed"),
        ("namespaces", *NAMES, "pmem_namespaces = ns9: this host does not have it"),
    ],
)
def test_misfitting_configuration_is_refused_at_reload_and_start(world, part, good, bad, mistake):
    ours = FITTING[part](world)
    ours.checks.check(good)
    with pytest.raises(ConfigError, match=mistake):
        ours.checks.check(bad)

    ours.state = replace(ours.state, policy=bad)
    assert not ours.checks.accept()
    (error,) = ours.errors
    assert mistake in str(error)


@pytest.fixture
def resolved(tmp_path):
    """A function that resolves provider entries on a host."""

    def resolve_on(*identifications: dict[str, str]) -> Offers:
        items = [entry(each, {CLASS: {"total": 1}}) for each in identifications]
        return resolve(provider_files(tmp_path / "files", *items), host())

    return resolve_on


TWICE = ({"uuid": NODE.uuid}, {"name": NODE.hypervisor_hostname})


def test_provider_files_that_contradict_this_host_are_refused_at_start_and_reload(world, resolved):
    ours = Host(world, host())
    ours.offers = resolved(*TWICE)

    assert not ours.file_checks.accept()

    (error,) = ours.errors
    assert "described a second time" in str(error)
    with pytest.raises(ExceptionGroup) as caught:
        ours.file_checks.check(world.settings.current)
    assert [type(error) for error in caught.value.exceptions] == [ProviderFileError]


def test_contradiction_that_appears_later_is_a_warning(world, resolved):
    ours = Host(world, host())
    assert ours.file_checks.accept()
    assert ours.notes.texts["provider_files"] == "pass"

    ours.offers = resolved(*TWICE)
    assert ours.file_checks.accept()

    assert ours.errors == []
    assert ours.notes.texts["provider_files"].startswith("warn: ")


def test_entry_without_a_provider_is_logged_once_until_the_provider_is_there(world, resolved):
    ours = Host(world, host())
    lines = []
    for identification in ({"name": "no\nhost"}, {"name": "no\nhost"}, TWICE[0], {"name": "other"}):
        ours.offers = resolved(identification)
        assert ours.file_checks.accept()
        lines.append(len([text for _, text in world.notes.logged if "has no provider" in text]))

    assert lines == [1, 1, 1, 2]
    (first, *_) = (text for _, text in world.notes.logged if "has no provider" in text)
    why = "this host has no provider no\\nhost: ignored until it has"
    assert first.endswith(f"a.yaml: $.providers[0]: {why}")
