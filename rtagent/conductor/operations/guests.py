"""Steps that run the guest on the selected host."""

from __future__ import annotations

from rtagent.conductor.operations.hosts import selected
from rtagent.conductor.run import Run


def prepare(run: Run) -> None:
    """Call the hook that makes disks and networks ready, and renew the lease while it runs."""
    dest = run.progress.dest
    run.hook("prepare", dest.host, lease=dest)


def cleanup(run: Run) -> None:
    """Remove what `prepare` made."""
    run.hook("cleanup", selected(run).host)


def define(run: Run) -> None:
    """Define the domain with the claim's guest document."""
    run.define(run.progress.dest)


def undefine(run: Run) -> None:
    """Remove the domain from the selected host, running or not."""
    run.undefine(selected(run))


def start(run: Run) -> None:
    """Start the domain."""
    run.start(run.progress.dest)
