"""Creation: whether claims are created at present, and the error that creating calls get if not."""

from collections.abc import Callable
from typing import Any, TypeVar

from rtagent.errors import InvariantViolated, NodeNotReady, Unavailable
from rtagent.lifecycle.draining import check_not_draining
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision, Granted
from rtagent.model.node_state import NodeState
from rtagent.state.writer import StateWriter

D = TypeVar("D", bound=Decision)


class Creation:
    """Thread-safe.

    :ivar unlisted: why the last audit has not listed the host's devices, or None. Until one has, no
        claim gets any.
    """

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self._suspended: Unavailable | None = None
        self._unobserved: dict[str, Unavailable | None] = {}
        self.unlisted: Unavailable | None = None

    @property
    def suspended(self) -> Unavailable | None:
        """Why no claim is created at present, or None."""
        return self._suspended or self.unobserved

    @property
    def unobserved(self) -> Unavailable | None:
        """Why the last audit of one part has not observed it, or None. Until it has, no claim is
        made."""
        # `list` is one step for other threads, which note the result of an audit.
        return next(filter(None, list(self._unobserved.values())), None)

    def note_unobserved(self, part: str, error: Unavailable | None) -> None:
        """Note why an audit of a part of the host has not observed it; None: it has."""
        self._unobserved[part] = error

    def suspend(self, error: Unavailable | None) -> None:
        """Answer creating calls with this error from now on; None: create claims again."""
        self._suspended = error

    def check(self) -> None:
        """:raises Unavailable: no claim is created at present."""
        self._writer.restoration.check()
        if isinstance(self._writer.status.fault, InvariantViolated):
            raise NodeNotReady(f"granting has stopped: {self._writer.status.fault.message}")
        if (error := self.suspended) is not None:
            # Without the traceback of earlier calls: each would add its frames to it.
            raise error.with_traceback(None)

    def admitted(self, rule: Callable[..., D]) -> Callable[..., D]:
        """Return the rule for new claims, which are refused while none is created, and with devices
        while these are not known.
        """

        def admitted(state: NodeState, *arguments: Any, **more: Any) -> D:
            self._writer.restoration.check()  # a reload may have noticed it since the call came
            check_not_draining(state)
            decision = rule(state, *arguments, **more)
            claims = decision.claims if isinstance(decision, Granted) else ()
            # An audit may note another result at any moment.
            if (error := self.unlisted) is not None and any(map(_has_devices, claims)):
                raise error.with_traceback(None)
            return decision

        return admitted


def _has_devices(claim: Claim) -> bool:
    """Return whether a claim has PCI devices, or resources that are made from some."""
    return bool(claim.pci) or any(unit.parent_addr is not None for unit in claim.resources)
