"""A host that guests leave and come to."""

from tests.builders import uid
from tests.move_rules import Host, facts


def moved() -> Host:
    """One guest has left for good, another is expected."""
    here = Host.named(1)
    here.runs()
    gone = facts("migration", source_compute="h1", dest_compute="h2")
    here.starts_out(gone)
    here.drops_source(gone)
    here.expects(facts("live-migration", source_compute="h3"), owner=uid(78))
    return here
