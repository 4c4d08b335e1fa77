"""Change what a consumer has on this node's providers. Its parts on other hosts stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from retrying import Retrying

from rtagent.errors import PlacementConflict
from rtagent.model.base import Value
from rtagent.model.consumers import INSTANCE, Consumer, Parts
from rtagent.placement.allocation_audit import AllocatedConsumer
from rtagent.placement.api import PlacementAPI
from rtagent.placement.client import CONCURRENT_UPDATE

#: How often a change is tried while other clients write to the consumer.
ATTEMPTS = 4
#: Placement's word for the type of a consumer that was written without one. It cannot be written.
UNTYPED = "unknown"
#: Placement's own project and user for consumers of which these are not known.
UNKNOWN_ID = "00000000-0000-0000-0000-000000000000"

#: Given what Placement has, return the parts that the consumer should have on the same providers,
#: or None to leave everything as it is.
Rule = Callable[[AllocatedConsumer], Parts | None]


class Identity(Value, frozen=True, kw_only=True):
    """The type, project and user of a consumer."""

    consumer_type: str = INSTANCE
    project_id: str = UNKNOWN_ID
    user_id: str = UNKNOWN_ID


class ChangedConsumer(Value, frozen=True, kw_only=True):
    """What a consumer had before a change. :ivar before: its parts on the providers concerned."""

    identity: Identity
    before: Parts


def identity_of(consumer: Consumer) -> Identity:
    """Return the identity that a claim gives its consumer."""
    return Identity(
        consumer_type=consumer.consumer_type,
        project_id=consumer.project_id or UNKNOWN_ID,
        user_id=consumer.user_id or UNKNOWN_ID,
    )


def change_parts(
    api: PlacementAPI,
    uuid: str,
    providers: Set[str],
    rule: Rule,
    new: Identity | None = None,
    *,
    shared: str | None = None,
) -> ChangedConsumer | None:
    """Replace the parts of a consumer on some providers by what the rule returns.

    The rule is evaluated right before the write. A write by another client in between makes
    Placement refuse this one, and the rule is evaluated again.

    :param new: the identity of a consumer that Placement does not have yet.
    :param shared: a provider that shares its inventory with this node and with others. The
        consumer's part there counts as this node's if the consumer has nothing on other nodes.
    :returns: None: nothing was written.
    :raises PlacementConflict: other clients always come first, or a provider has too little left.
    """
    retrying = Retrying(
        stop_max_attempt_number=ATTEMPTS,
        wait="no_sleep",  # the other writer finishes while the consumer is read again
        retry_on_exception=_is_concurrent,
    )
    changed: ChangedConsumer | None = retrying.call(
        _change, api, uuid, providers, rule, new, shared
    )
    return changed


def tree_providers(api: PlacementAPI, root: str) -> frozenset[str]:
    """Return the uuids of all providers of a node; none if Placement does not have the node."""
    return frozenset(provider["uuid"] for provider in api.tree(root))


def read_consumer(
    content: Mapping[str, Any], uuid: str, providers: Set[str]
) -> tuple[AllocatedConsumer, Parts]:
    """Return what a consumer has on some providers, and its parts on all others.

    :param content: as in `PlacementAPI.consumer`.
    """
    parts = {name: part["resources"] for name, part in content["allocations"].items()}
    here = {name: resources for name, resources in parts.items() if name in providers}
    elsewhere = {name: resources for name, resources in parts.items() if name not in providers}
    generation = content.get("consumer_generation")
    return AllocatedConsumer(uuid=uuid, generation=generation, parts=here), elsewhere


def body(
    content: Mapping[str, Any], parts: Parts, new: Identity | None = None
) -> Mapping[str, Any]:
    """Return the body of a write that changes nothing but the parts."""
    identity = _identity(content) or new or Identity()
    return {
        "allocations": {name: {"resources": dict(part)} for name, part in parts.items()},
        "consumer_generation": content.get("consumer_generation"),
        "consumer_type": identity.consumer_type,
        "project_id": identity.project_id,
        "user_id": identity.user_id,
    }


def _change(
    api: PlacementAPI,
    uuid: str,
    providers: Set[str],
    rule: Rule,
    new: Identity | None,
    shared: str | None,
) -> ChangedConsumer | None:
    content = api.consumer(uuid)
    found = content["allocations"].keys()
    if shared is not None and found & providers and found <= {*providers, shared}:
        providers = {*providers, shared}
    consumer, elsewhere = read_consumer(content, uuid, providers)
    wanted = rule(consumer)
    if wanted is None or wanted == consumer.parts:
        return None
    api.put_consumer(uuid, body(content, {**elsewhere, **wanted}, new))
    identity = _identity(content) or new or Identity()
    return ChangedConsumer(identity=identity, before=consumer.parts)


def _identity(content: Mapping[str, Any]) -> Identity | None:
    if "project_id" not in content:
        return None
    type_ = content.get("consumer_type", UNTYPED)
    return Identity(
        consumer_type=INSTANCE if type_ == UNTYPED else type_,
        project_id=content["project_id"],
        user_id=content["user_id"],
    )


def _is_concurrent(error: Exception) -> bool:
    return isinstance(error, PlacementConflict) and error.kwargs.get("code") == CONCURRENT_UPDATE
