"""Boot: what must be had and proved before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from rtagent import identity, locks, machine
from rtagent.conf.settings import Settings
from rtagent.errors import IdentityError, RtAgentError, Unavailable
from rtagent.model.node import Node, NodeRecord
from rtagent.ports import Clock, Enroll, HostIdentity, Reporter, Store, Stored
from rtagent.service.backoff import Backoff
from rtagent.service.inbox import STOP, Inbox
from rtagent.service.notifier import Notifier

_T = TypeVar("_T")


class Stopped(Exception):
    """The process was told to stop before it was up."""


class Boot:
    """The steps of a start that may have to wait. Waiting is said in STATUS and in the log, and a
    signal ends it."""

    def __init__(
        self,
        settings: Settings,
        inbox: Inbox,
        notifier: Notifier,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        self._settings, self._inbox, self._notifier = settings, inbox, notifier
        self._clock, self._reporter = clock, reporter
        self._compute_id = machine.ComputeId(settings.default.state_path)

    def lock_state(self) -> locks.FileLock:
        """The state directory, ours; made at the very first start.

        :raises IdentityError: another agent has it, or it cannot be had.
        """
        directory = Path(self._settings.default.state_path)
        try:
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as exc:
            raise IdentityError(f"{directory} cannot be made: {exc.strerror}") from exc
        lock = locks.state_directory(str(directory))
        lock.take()
        self._compute_id.read()  # a garbled one is told before anything is waited for
        return lock

    def enroll(self, store: Store, found: HostIdentity, take_over: bool) -> Stored:
        """Become the node's writer.

        The file of a new node is made inside the transaction, when the rule has agreed: a file
        without a record is a new node still, and there is never a record without its file.

        :raises IdentityError: StoreUnavailable:
        """
        default = self._settings.default
        node = Node(
            uuid=self._compute_id.read() or str(uuid.uuid4()),
            host=default.host,
            hypervisor_hostname=found.hostname,
            host_ip=default.my_ip,
        )
        claimant = identity.Claimant(
            node=node,
            writer=machine.writer(default.state_path),
            compute_id=str(self._compute_id.path),
            service_down_time=default.service_down_time,
            take_over=take_over,
        )
        rule = identity.enroll(claimant, self._clock.now())
        return store.enroll(node.uuid, node.hypervisor_hostname, self._keeping_file(rule))

    def _keeping_file(self, rule: Enroll) -> Enroll:
        def decide(records: Sequence[NodeRecord]) -> NodeRecord:
            record = rule(records)
            self._compute_id.write(record.node.uuid)
            return record

        return decide

    def until(self, what: str, attempt: Callable[[], _T]) -> _T:
        """The attempt's result, repeated with back-off while it is `Unavailable`.

        :raises Stopped: the process was told to end.
        """
        backoff = Backoff()
        while True:
            try:
                return attempt()
            except Unavailable as error:
                self._notifier.status(f"waiting for {what}: {error.message}")
                self._reporter.said("warning", f"waiting for {what}: {error.message}")
            self._pause(backoff.pause())

    def _pause(self, seconds: float) -> None:
        ends = self._clock.monotonic() + seconds
        while (left := ends - self._clock.monotonic()) > 0:
            news = self._inbox.get(left)
            if news == STOP:
                raise Stopped
            if isinstance(news, RtAgentError):
                raise news
