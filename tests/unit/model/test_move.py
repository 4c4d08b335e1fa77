"""A request to claim resources at the destination of a move."""

from rtagent.model.migration import MigrationFacts, MoveRequest
from tests.support.hosts import request, uid


def move(migration):
    build = request()
    return MoveRequest(build=build, migration=migration, old_flavor=build.instance.flavor)


def test_kind_of_a_move_is_the_type_of_its_migration():
    facts = MigrationFacts(uuid=uid(), migration_type="evacuation")
    assert move(facts).kind == "evacuation"
    assert move("live-migration").kind == "live-migration"
