"""The catalogue: the flavors of live claims, and of the operator's file."""

from msgspec.structs import replace

from rtagent.capacity.catalogue import MAX_FLAVORS, catalogue
from rtagent.model.claim import ATTACH
from rtagent.model.request import Flavor, Image, PciRequest
from tests.support.device_states import with_builds
from tests.support.hosts import PINNING, host, request, uid

SMALL = Flavor(name="small", vcpus=1, memory_mb=512)


def state(*builds):
    return with_builds(host(numa=PINNING), *builds)


def build(name="small", *, image=None, **instance):
    facts = {"image": Image(properties=image or {}), **instance}
    return request(1, 512, name=name, instance=facts)


def test_flavors_of_the_file_and_of_claims_are_one_catalogue():
    large = replace(SMALL, name="large", vcpus=8)
    # What does not decide makes no difference.
    other = build(image={"os_distro": "debian", "hw_disk_bus": "virtio"})
    found = catalogue(state(build(), other), [SMALL, large]).flavors
    flavors = [(each.name, each.claims, each.in_file) for each in found]
    assert flavors == [("large", 0, True), ("small", 2, True)]


def test_a_guest_that_needs_something_else_than_its_flavor_has_a_name_of_its_own():
    volume = build(is_volume_backed=True)
    volume = replace(volume, instance=replace(volume.instance, flavor=replace(SMALL, root_gb=5)))
    port = PciRequest(count=1, request_id=uid(), spec=({"vendor_id": "8086"},))
    devices = build("sriov", pci_requests=(port,))
    pages = build("pages", image={"hw_mem_page_size": "any"})
    asked = state()
    for number, made in enumerate((volume, devices, pages)):
        asked = with_claim(asked, made, number)
    found = {each.name.partition("#")[0]: each for each in catalogue(asked).flavors}
    assert all("#" in each.name for each in found.values())
    assert {name: each.variant for name, each in found.items()} == {
        "small": "root disk in a volume",
        "sriov": "1 devices requested beside the flavor",
        "pages": "image hw_mem_page_size=any",
    }


def with_claim(shown, made, number):
    """A state with a claim of this request, whether it fits or not."""
    template = next(iter(state(build()).claims.values()))
    instance = made.instance
    new = replace(
        template,
        uuid=uid(900 + number),
        owner_id=instance.uuid,
        flavor=instance.flavor,
        image=instance.image,
        pci_requests=instance.pci_requests,
        instance=instance.facts(),
    )
    return replace(shown, claims=shown.claims.set(new.uuid, new))


def test_of_two_flavors_of_one_name_that_of_the_file_keeps_the_name():
    (first, second) = catalogue(state(build()), [replace(SMALL, memory_mb=1024)]).flavors
    assert (first.name, first.in_file) == ("small", True)
    assert second.name.startswith("small#")
    assert not second.in_file


def test_attached_devices_and_damaged_claims_are_left_out():
    shown = state(build())
    (one,) = shown.claims.values()
    attached = replace(one, kind=ATTACH, uuid=uid(801))
    damaged = replace(one, uuid=uid(802), suspect="its record is damaged: x")
    more = shown.claims.set(attached.uuid, attached).set(damaged.uuid, damaged)
    (flavor,) = catalogue(replace(shown, claims=more)).flavors
    assert (flavor.name, flavor.claims) == ("small", 1)


def test_an_invalid_flavor_says_why():
    (flavor,) = catalogue(state(), [replace(SMALL, extra_specs={"hw:numa_nodes": "x"})]).flavors
    assert flavor.required is None
    assert "hw:numa_nodes" in flavor.error


def test_flavors_beyond_the_limit_are_left_out_and_can_be_asked_for_by_name():
    many = [replace(SMALL, name=f"f{number}", vcpus=number + 1) for number in range(10_000)]
    shown = state(build("here"))
    found = catalogue(shown, many)
    assert len(found.flavors) == MAX_FLAVORS
    assert found.left_out == 10_001 - MAX_FLAVORS
    assert "here" in {each.name for each in found.flavors}  # it has claims
    (asked,) = catalogue(shown, many, only="f9999").flavors
    assert asked.build.instance.flavor.vcpus == 10_000
    assert catalogue(shown, many, only="f").flavors == ()


def test_the_same_name_is_given_whether_one_flavor_or_all_are_asked_for():
    shown = with_claim(state(build()), build(image={"hw_mem_page_size": "any"}), 1)
    both = catalogue(shown, [SMALL])
    assert len(both.flavors) == 2
    for flavor in both.flavors:
        assert catalogue(shown, [SMALL], only=flavor.name).flavors == (flavor,)
