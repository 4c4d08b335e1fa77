"""The operations of a conductor: a table of steps for each kind."""

from rtagent.conductor.engine import Table
from rtagent.conductor.operations.build import BUILD
from rtagent.conductor.operations.delete import CLEAR_DELETED, DELETE, FORCED_DELETE
from rtagent.conductor.operations.evacuation import CLEAR_EVACUATED, EVACUATION
from rtagent.conductor.operations.hosts import OWED_CALL
from rtagent.conductor.operations.moves import LIVE_MIGRATION
from rtagent.conductor.operations.power import SHELVE, START, STOP, UNSHELVE
from rtagent.conductor.operations.resize import CONFIRM, RESIZE, REVERT
from rtagent.model.server import ACTIVE, RESIZED, SHELVED_OFFLOADED, STOPPED

#: By kind.
TABLES: dict[str, Table] = {
    table.kind: table
    for table in (
        *(BUILD, DELETE, RESIZE, CONFIRM, REVERT, LIVE_MIGRATION, EVACUATION, SHELVE, UNSHELVE),
        *(START, STOP, OWED_CALL, CLEAR_EVACUATED, FORCED_DELETE, CLEAR_DELETED),
    )
}

#: The states of a server in which an operation may begin. Delete may begin in any.
STATES = {
    **dict.fromkeys(("resize", "evacuation"), (ACTIVE, STOPPED)),
    **dict.fromkeys(("live-migration", "stop"), (ACTIVE,)),
    **dict.fromkeys(("confirm", "revert"), (RESIZED,)),
    "shelve": (ACTIVE, STOPPED),
    "unshelve": (SHELVED_OFFLOADED,),
    "start": (STOPPED,),
}
