"""The planted defects. Each of them is small, and plausible as a mistake.

Where the mistake needs an accident that is rare without faults (a connection that is lost during a
commit), the replacement makes the accident, too.
"""

from __future__ import annotations

from tests.chaos.planted.defect import Defect, Replacement

STORE, RECOVERY = "rtagent/db/store.py", "rtagent/state/recovery.py"
CLAIMS, CELLS = "rtagent/claims.py", "rtagent/numa/host_cells.py"
CAPACITY = "rtagent/allocation/capacity.py"
CONDUCTOR_RUN = "rtagent/conductor/run.py"
AUTHENTICATION, REPLAYS = "rtagent/rpc/trust/authentication.py", "rtagent/rpc/trust/replays.py"
#: Of so many commits, the rows of one are lost.
EVERY_WRITE = 10

_WRITE = "            self._writer.write(connection, before.node.uuid, batch)\n"
_COMMITTED = """\
            write_drain(connection, before, after)

    def position("""
# The first answer of a commit that ends an active claim. A second one would be noticed: a reload
# compares the claims in use with those of the store.
_UNANSWERED = """
        ended = [each for uuid, each in before.claims.items() if uuid not in after.claims]
        if any(each.state == "active" for each in ended) and not hasattr(self, "_unanswered"):
            from rtagent.errors import CommitUnknown

            self._unanswered = after.revision
            raise CommitUnknown("the connection was lost")

"""
_LOADED = """\
        if revision is None:
            return loaded
"""
_ORDER = """\
*arguments, check=self.check)
        self._patience.repeat(order, self._options.host_timeout)
"""

DEFECTS = (
    Defect(
        name="lost-commit",
        meaning="A commit whose rows did not reach the database is acknowledged.",
        replacements=(
            # The node's row does, because a store whose revision goes back is noticed.
            Replacement(
                STORE, _WRITE, f"            if after.revision % {EVERY_WRITE}:\n    {_WRITE}"
            ),
        ),
        promises=("P1", "P2", "P6", "P7"),
    ),
    Defect(
        name="double-grant",
        meaning="Pages and vCPUs that a claim has are granted again.",
        replacements=(
            Replacement(
                CAPACITY,
                "free_vcpus=has.vcpus.claimable - used.vcpus,",
                "free_vcpus=has.vcpus.claimable,",
            ),
            Replacement(
                CELLS,
                "        pages=page_pools(cell, usage, policy),\n",
                "        pages=page_pools(cell, NumaUsage(), policy),\n",
            ),
        ),
        promises=("P6",),
    ),
    Defect(
        name="forgotten-release",
        meaning="A release is acknowledged, and the claim stays.",
        replacements=(
            Replacement(
                CLAIMS,
                "    if before is None:\n        operations = (call.operation(), ended",
                "    if before is None or claim_uuid.endswith('0'):\n"
                "        operations = (call.operation(), ended",
            ),
        ),
        promises=("P7",),
    ),
    Defect(
        name="stale-reload",
        meaning="After a commit whose answer was lost, the claims of before it are in use.",
        replacements=(
            Replacement(STORE, _COMMITTED, _COMMITTED.replace("\n\n", _UNANSWERED)),
            Replacement(
                RECOVERY,
                _LOADED,
                _LOADED.replace(
                    "return loaded",
                    "return replace(known, epoch=loaded.epoch, revision=loaded.revision,"
                    " event_sequence=loaded.event_sequence)",
                ),
            ),
        ),
        promises=("P1", "P2", "P6", "P7", "P14"),
    ),
    Defect(
        name="replayed-message",
        meaning="A signed call is served however old its signature is.",
        replacements=(
            Replacement(
                AUTHENTICATION,
                "        if abs(skew) <= window:\n",
                "        if skew <= window:\n",
            ),
            # What is too old need not be remembered, because it was refused before.
            Replacement(REPLAYS, "return EXPIRED\n", 'return ""\n'),
        ),
        promises=("Trust",),
        signed=True,
    ),
    Defect(
        name="unsigned-call",
        meaning="A call without a signature is served although one is required.",
        replacements=(
            Replacement(
                AUTHENTICATION,
                "        if options.require_signature and method != PING:\n",
                "        if options.require_signature and method == PING:\n",
            ),
        ),
        promises=("Trust",),
        signed=True,
    ),
    Defect(
        name="unfenced-order",
        meaning="A conductor that has lost an operation still gives the order that was next.",
        replacements=(
            Replacement(CONDUCTOR_RUN, _ORDER, "*arguments)\n        self.reach(order)\n"),
        ),
        promises=("a server has one",),
        options=("--conductors", "3", "--faults", "late-order", "--database", "sqlite"),
    ),
)
