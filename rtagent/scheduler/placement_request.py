"""The query of Placement's allocation candidates for a request. Pure.

It has the groups that Nova's has, and the classes and traits that the agents publish: the group
without a suffix for the flavor, those that the flavor names, one for each requested resource, one
for the context of encrypted memory, and, with ``pci_in_placement``, one for each PCI device.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import os_traits
from msgspec.structs import replace

from rtagent.allocation import requirements
from rtagent.allocation.device_shares import group_id
from rtagent.allocation.requirements import GROUP_POLICIES, GROUP_POLICY, Requirements
from rtagent.conf.scheduler import SchedulerOptions
from rtagent.errors import InvalidPciRequest
from rtagent.model.base import RESOURCE_NAME, UUID, Value
from rtagent.model.mem_encryption import RESOURCE_CLASS, TRAITS
from rtagent.model.node import Aggregate
from rtagent.model.policy import Policy
from rtagent.model.request import Flavor
from rtagent.model.server import Destination, RequestSpec
from rtagent.numa.properties import Property
from rtagent.pci.requests import FLAVOR_ALIAS, DeviceRequest
from rtagent.scheduler.claim_template import ClaimTemplate, kind_of
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.required_traits import required_traits

#: The parameter of a query that names aggregates.
MEMBER_OF = "member_of"
#: The beginning of the keys of metadata that reserve an aggregate for a project.
TENANT = "filter_tenant_id"
#: The beginning of the keys of metadata that isolate an aggregate.
TRAIT = "trait:"


def member_of(
    spec: RequestSpec,
    options: SchedulerOptions,
    aggregates: Iterable[Aggregate],
    required_traits: frozenset[str],
) -> Iterator[tuple[str, str]]:
    """Yield the ``member_of`` parameters of the query for a request.

    :param required_traits: of all groups, the flavor and the image.
    :raises NoValidHost: the project may use no aggregate.
    """
    known, destination = tuple(aggregates), spec.requested_destination or Destination()
    for each in destination.aggregates:
        yield MEMBER_OF, _any_of(each.split(","))
    yield from _required(_zone_of(spec, options, known))
    if options.limit_tenants_to_placement_aggregate:
        yield from _required(_reserved(spec, options, known))
    forbidden = list(destination.forbidden_aggregates)
    if options.enable_isolated_aggregate_filtering:
        forbidden += (each.uuid for each in known if not _required_by(each) <= required_traits)
    if forbidden:
        yield MEMBER_OF, f"!{_any_of(forbidden)}"


def _zone_of(
    spec: RequestSpec, options: SchedulerOptions, aggregates: Iterable[Aggregate]
) -> Iterator[str]:
    """Yield the aggregates of the requested zone, if Placement judges it."""
    if options.query_placement_for_availability_zone and (zone := spec.availability_zone):
        yield from (each.uuid for each in aggregates if each.availability_zone == zone)


def _required(uuids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield nothing if there are no such aggregates: then hosts are not limited, as in Nova."""
    found = list(uuids)
    if found:
        yield MEMBER_OF, _any_of(found)


def _reserved(
    spec: RequestSpec, options: SchedulerOptions, aggregates: Sequence[Aggregate]
) -> list[str]:
    """Return the aggregates that are reserved for the project."""
    found = [
        each.uuid
        for each in aggregates
        if any(k.startswith(TENANT) and v == spec.project_id for k, v in each.metadata.items())
    ]
    if not found and options.placement_aggregate_required_for_tenants:
        raise NoValidHost(
            hosts=0,
            refused={},
            nearest=None,
            sentence=f"no aggregate is reserved for project {spec.project_id}, which [scheduler]"
            " placement_aggregate_required_for_tenants requires",
        )
    return found


def _required_by(aggregate: Aggregate) -> frozenset[str]:
    """Return the traits that a request must require to use an aggregate."""
    return frozenset(
        key.removeprefix(TRAIT)
        for key, value in aggregate.metadata.items()
        if key.startswith(TRAIT) and value == "required"
    )


def _any_of(uuids: Iterable[str]) -> str:
    return f"in:{','.join(sorted(set(uuids)))}"


#: ``resources:CLASS``, ``traitGROUP:NAME``, ``in_treeGROUP`` of a flavor. Nova's grammar.
_KEY = re.compile(r"(?P<what>resources|trait)(?P<suffix>[a-zA-Z0-9_-]{1,64})?:(?P<name>.+)")
_IN_TREE = re.compile(r"in_tree(?P<suffix>[a-zA-Z0-9_-]{1,64})?")
_NAME, _UUID = re.compile(RESOURCE_NAME), re.compile(UUID)
#: The prefix of names that are not standard.
_CUSTOM = "CUSTOM_"
_REQUIRED, _FORBIDDEN = "required", "forbidden"
#: The suffix of the group for the context of encrypted memory.
ENCRYPTION = "_mem_encryption"

#: The parameters of ``GET /allocation_candidates``. A name may be repeated.
Query = tuple[tuple[str, str], ...]


class _Group(Value, frozen=True, kw_only=True):
    """One request group. :ivar suffix: "" for the group without one."""

    suffix: str
    resources: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    in_tree: str | None = None

    def parameters(self) -> Iterator[tuple[str, str]]:
        """Yield the parameters of the query."""
        if self.resources:
            numbers = (f"{name}:{number}" for name, number in sorted(self.resources.items()))
            yield f"resources{self.suffix}", ",".join(numbers)
        if self.required or self.forbidden:
            yield f"required{self.suffix}", _traits(self.required, self.forbidden)
        if self.in_tree:
            yield f"in_tree{self.suffix}", self.in_tree


def candidates_query(
    spec: RequestSpec,
    template: ClaimTemplate,
    options: SchedulerOptions,
    aggregates: Iterable[Aggregate],
    in_tree: str | None = None,
) -> Query:
    """Return the query for a request.

    :param in_tree: the only node that may be selected, or None.
    :raises NoValidHost: the project may use no aggregate.
    :raises InvalidPciRequest: a device cannot be requested from Placement.
    :raises PropertyInvalid: a value in the flavor is malformed.
    """
    required = requirements.from_request(template.build, Policy(), lambda *_: ())
    groups = [*_groups(spec, required, options)]
    if in_tree is not None and groups[0].in_tree is None:
        groups[0] = replace(groups[0], in_tree=in_tree)
    granular = [each for each in groups if each.suffix and each.resources]
    policy = Property(GROUP_POLICY, spec.flavor.extra_specs.get(GROUP_POLICY, "none"))
    needed = required_traits(spec)
    known = tuple(aggregates)
    limited = in_tree is not None or not _names_hosts(spec, options, known)
    return (
        *(parameter for each in groups for parameter in each.parameters()),
        *(((GROUP_POLICY, policy.one_of(GROUP_POLICIES)),) if granular else ()),
        *(("same_subtree", ",".join(map(_suffix, ids))) for ids in spec.same_subtree),
        *member_of(spec, options, known, needed.union(*(group.required for group in groups))),
        ("root_required", _traits(*_root_traits(spec, needed, options))),
        *((("limit", str(options.max_placement_results)),) if limited else ()),
    )


def _names_hosts(
    spec: RequestSpec, options: SchedulerOptions, aggregates: Sequence[Aggregate]
) -> bool:
    """Return whether few hosts may be right, which a limit could leave out: those of instances,
    those that the request names, or those of a zone that is not in the query, as the default one.
    """
    destination = spec.requested_destination or Destination()
    hints = spec.hint("same_host") or spec.hint("different_host")
    forced = spec.force_hosts or spec.force_nodes or destination.host or destination.node
    zones = spec.availability_zone and any(each.availability_zone for each in aggregates)
    zone = zones and not any(_zone_of(spec, options, aggregates))
    return bool(hints or forced or zone or spec.instance_group)


def _groups(
    spec: RequestSpec, required: Requirements, options: SchedulerOptions
) -> Iterator[_Group]:
    """Yield the groups, the one without a suffix first."""
    own = {each.suffix: each for each in _flavor_groups(spec.flavor)}
    numbers = {name: _number(asked) for name, asked in required.assigned_resources.items()}
    numbers = {**required.allocated, **numbers}
    for each in own.values():
        if each.suffix:
            for name, number in each.resources.items():
                numbers[name] = numbers.get(name, 0) - number
    unsuffixed = own.pop("", _Group(suffix="", resources={}))
    yield _Group(
        suffix="",
        resources={name: number for name, number in numbers.items() if number > 0},
        required=unsuffixed.required | _image_traits(spec),
        forbidden=unsuffixed.forbidden,
        in_tree=unsuffixed.in_tree,
    )
    yield from own.values()
    for group in spec.requested_resources:
        yield _Group(
            suffix=_suffix(group.requester_id),
            resources=group.resources,
            required=frozenset(group.required_traits),
            forbidden=frozenset(group.forbidden_traits),
            in_tree=group.in_tree,
        )
    if required.mem_encryption is not None:
        traits = frozenset({TRAITS[required.mem_encryption]})
        yield _Group(suffix=ENCRYPTION, resources={RESOURCE_CLASS: 1}, required=traits)
    if options.pci_in_placement:
        yield from _device_groups(spec, required, options)


def _suffix(requester_id: str) -> str:
    return f"_{requester_id}"


def _flavor_groups(flavor: Flavor) -> Iterator[_Group]:
    """Yield the groups that the flavor's extra specs name.

    :raises PropertyInvalid:
    """
    resources: dict[str, dict[str, int]] = {}
    traits: dict[tuple[str, str], set[str]] = {}
    trees: dict[str, str] = {}
    for key, value in flavor.extra_specs.items():
        tree, found = _IN_TREE.fullmatch(key), _KEY.fullmatch(key)
        if tree is not None:
            if not _UUID.fullmatch(value):
                raise Property(key, value).invalid("must be the uuid of a provider")
            trees[tree["suffix"] or ""] = value
        elif found is not None and found["what"] == "trait":
            _check_name(Property(key, value), found["name"])
            Property(key, value).one_of((_REQUIRED, _FORBIDDEN))
            traits.setdefault((found["suffix"] or "", value), set()).add(found["name"])
        elif found is not None and value:
            _check_name(Property(key, value), found["name"])
            number = Property(key, value).integer(least=0)
            resources.setdefault(found["suffix"] or "", {})[found["name"]] = number
    suffixes = (*resources, *(suffix for suffix, _ in traits), *trees)
    for suffix in dict.fromkeys(suffixes):
        yield _Group(
            suffix=suffix,
            resources={name: n for name, n in resources.get(suffix, {}).items() if n},
            required=frozenset(traits.get((suffix, _REQUIRED), ())),
            forbidden=frozenset(traits.get((suffix, _FORBIDDEN), ())),
            in_tree=trees.get(suffix),
        )


def _check_name(named: Property, name: str) -> None:
    """Check the name of a trait or resource class, because any other text could add conditions to
    the query. Placement refuses a query with the bare prefix.

    :raises PropertyInvalid:
    """
    if not _NAME.fullmatch(name):
        raise named.invalid("must name a trait or resource class, of the characters A-Z, 0-9 and _")
    if name == _CUSTOM:
        raise named.invalid(f"must have a name after {_CUSTOM}")


def _image_traits(spec: RequestSpec) -> frozenset[str]:
    """Return the traits that the image requires. It cannot forbid any.

    :raises PropertyInvalid:
    """
    found = set[str]()
    for key, value in spec.image.properties.items():
        if key.startswith("trait:"):
            name = key.removeprefix("trait:")
            _check_name(Property(key, value), name)
            Property(key, value).one_of((_REQUIRED,))
            found.add(name)
    return frozenset(found)


def _root_traits(
    spec: RequestSpec, needed: frozenset[str], options: SchedulerOptions
) -> tuple[set[str], set[str]]:
    """Return the traits that the root provider needs, and those that it must not have."""
    required = {*spec.required_traits, *needed}
    disk_format = spec.image.disk_format
    if options.query_placement_for_image_type_support and disk_format and not spec.is_bfv:
        trait = f"COMPUTE_IMAGE_TYPE_{disk_format.upper()}"
        # A format without a trait is one that any host may support, as in Nova.
        required |= {trait} & set(os_traits.get_traits())
    return required, {*spec.forbidden_traits, os_traits.COMPUTE_STATUS_DISABLED}


def _device_groups(
    spec: RequestSpec, required: Requirements, options: SchedulerOptions
) -> Iterator[_Group]:
    """Yield a group for each device of a flavor. Devices of ports are not in Placement.

    The suffixes are those by which the agents find the request of a group.
    """
    policy = required.numa.pci_numa_affinity_policy
    requests_of = requirements.requests_for(kind_of(spec))
    for request in requests_of(spec.flavor, spec.pci_requests, options.aliases, policy):
        if request.source == FLAVOR_ALIAS:
            for number in range(request.count):
                yield _device_group(request, f"_{group_id(request.request_id)}-{number}")


def _device_group(request: DeviceRequest, suffix: str) -> _Group:
    """:raises InvalidPciRequest: Placement cannot be asked for the device."""
    criteria = request.alternatives[0]
    name = criteria.resource_class
    if name is None and criteria.vendor_id and criteria.product_id:
        name = f"CUSTOM_PCI_{criteria.vendor_id}_{criteria.product_id}".upper()
    if name is None or len(request.alternatives) > 1:
        rule = (
            "[filter_scheduler] pci_in_placement needs one alternative, with a resource_class or"
            " with vendor_id and product_id"
        )
        where = f"PCI request {request.purpose}"
        raise InvalidPciRequest(where=where, value=request.resource, rule=rule)
    movable = frozenset({os_traits.HW_PCI_LIVE_MIGRATABLE})
    traits = criteria.traits | {os_traits.COMPUTE_MANAGED_PCI_DEVICE}
    return _Group(
        suffix=suffix,
        resources={name: 1},
        required=traits | movable if criteria.live_migratable else traits,
        forbidden=movable if criteria.live_migratable is False else frozenset(),
    )


def _traits(required: Iterable[str], forbidden: Iterable[str]) -> str:
    return ",".join((*sorted(required), *(f"!{name}" for name in sorted(forbidden))))


def _number(asked: int | Sequence[str]) -> int:
    return asked if isinstance(asked, int) else len(asked)
