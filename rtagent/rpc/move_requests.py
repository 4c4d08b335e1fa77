"""Requests of moves, made of what a call brings."""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from rtagent.errors import InvalidRequest
from rtagent.model.flavor import Flavor, Image
from rtagent.model.instance import Instance
from rtagent.model.migration import MigrationFacts, MigrationType
from rtagent.model.move import MoveRequest, SourceFacts
from rtagent.model.request import BuildRequest, ExtraResource, Limits


class MoveDocument(Protocol):
    """What the arguments of all calls have that claim for a move."""

    @property
    def instance(self) -> Instance: ...

    @property
    def limits(self) -> Limits | None: ...

    @property
    def tag(self) -> str | None: ...

    @property
    def extra_resource(self) -> ExtraResource | None: ...

    @property
    def migration(self) -> MigrationFacts | None: ...

    @property
    def source(self) -> SourceFacts | None: ...


def move_request(
    arguments: MoveDocument,
    claim_uuid: str,
    kind: MigrationType,
    flavor: Flavor | None = None,
    image: Image | None = None,
) -> MoveRequest:
    """The guest as it will be: with this flavor and image, where they are not its own.

    :raises InvalidRequest: the migration that was passed is of another type.
    """
    instance, migration = arguments.instance, arguments.migration
    if migration is not None and migration.migration_type != kind:
        wrong = {"path": "$.migration.migration_type", "message": f"must be {kind}"}
        raise InvalidRequest(method="test_claim", errors=[wrong])
    new = replace(instance, flavor=flavor or instance.flavor, image=image or instance.image)
    build = BuildRequest(
        claim_uuid=claim_uuid,
        instance=new,
        limits=arguments.limits or Limits(),
        extra_resource=arguments.extra_resource or {},
        tag=arguments.tag,
    )
    return MoveRequest(
        build=build,
        kind=kind,
        old_flavor=instance.flavor,
        migration=migration,
        source=arguments.source or SourceFacts(),
    )


def cold_kind(
    flavor: Flavor, instance: Instance, migration: MigrationFacts | None
) -> MigrationType:
    """As the migration says; else a cold migration keeps its flavor and a resize does not."""
    if migration is not None:
        return migration.migration_type
    return "migration" if flavor == instance.flavor else "resize"
