"""Agents that report to schedulers, without a broker: the messages are values."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from rtagent import claims
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.report import (
    description_of,
    digest_of,
    instances_digest,
    instances_of,
    report_of,
)
from rtagent.scheduler.report_documents import (
    DeleteInstanceInfo,
    SyncInstanceInfo,
    UpdateInstanceInfo,
    instances_text,
)
from tests.support.host_states import node_named
from tests.support.hosts import NOON, ManualClock, call, host, uid

#: Delivers one message to a manager.
Message = Callable[[HostManager], None]


class ReportingAgent:
    """An agent, its node, and the messages that it sends.

    :ivar state: the truth about the node.
    """

    def __init__(self, name: str = "cn1", state: NodeState | None = None) -> None:
        self.name = name
        self.state = replace(state or host(), node=node_named(name), epoch=1)
        self.number = 0
        self._sent: dict[str, InstanceInfo] = {}
        self._described = ""
        self._ended: tuple[str, ...] = ()

    @property
    def uuid(self) -> str:
        return self.state.node.uuid

    def claim(self, request: BuildRequest, operation_id: str | None = None) -> Claim | None:
        """Grant or refuse a claim."""
        decision = claims.instance_claim(self.state, call(operation_id=operation_id), NOON, request)
        if not isinstance(decision, Granted):
            return None
        self.state = self.state.fold(decision.change)
        return decision.claims[0]

    def release(self, claim_uuid: str) -> None:
        decision = claims.release_claim(self.state, call("release_claim"), NOON, claim_uuid)
        assert isinstance(decision, Granted)
        self.state = self.state.fold(decision.change)
        self._ended += (claim_uuid,)

    def restart(self) -> None:
        """Start again: a new epoch, with messages that are numbered from 1 again."""
        self.state = replace(self.state, epoch=self.state.epoch + 1)
        self.number, self._sent, self._described = 0, {}, ""

    def messages(self) -> list[Message]:
        """Return the messages that tell schedulers of the changes since the last ones."""
        return [*self._of_instances(), self.report()]

    def answer(self) -> list[Message]:
        """Return the answer to a scheduler that asks for everything."""
        self._described = ""
        return [self.whole_list(), self.report()]

    def whole_list(self) -> Message:
        infos = dict(instances_of(self.state))
        self._sent = infos
        self.number += 1
        listed = tuple(infos.values())
        message = SyncInstanceInfo(
            **self._numbered(), digest=instances_digest(infos), instances=instances_text(listed)
        )
        return lambda manager: manager.change_instances(message, listed)

    def digest(self) -> Message:
        """Return the message that has the digest of the instances alone."""
        self.number += 1
        message = SyncInstanceInfo(**self._numbered(), digest=instances_digest(self._sent))
        return lambda manager: manager.change_instances(message)

    def host_report(self, **fields: object) -> HostReport:
        """Return a report, with the description if it is new since the last report."""
        description = description_of(self.state)
        digest = digest_of(description)
        report = report_of(
            self.state,
            digest,
            instances_digest=instances_digest(self._sent),
            instances_revision=self.number,
            ended=self._ended,
        )
        self._ended = ()
        new = digest != self._described
        self._described = digest
        return replace(report, **{"description": description if new else None, **fields})

    def report(self, **fields: object) -> Message:
        report = self.host_report(**fields)
        return lambda manager: manager.update_host_state(report)

    def _of_instances(self) -> list[Message]:
        if self.number == 0:
            return [self.whole_list()]
        now, sent = dict(instances_of(self.state)), self._sent
        self._sent = now
        changed = tuple(info for uuid, info in now.items() if sent.get(uuid) != info)
        made = [self._deletion(uuid) for uuid in sent if uuid not in now]
        return [*made, self._update(changed)] if changed else made

    def _deletion(self, uuid: str) -> Message:
        self.number += 1
        message = DeleteInstanceInfo(**self._numbered(), instance_uuid=uuid)
        return lambda manager: manager.change_instances(message)

    def _update(self, infos: tuple[InstanceInfo, ...]) -> Message:
        self.number += 1
        message = UpdateInstanceInfo(**self._numbered(), instances=instances_text(infos))
        return lambda manager: manager.change_instances(message, infos)

    def _numbered(self) -> dict[str, Any]:
        return {
            "host": self.name,
            "node_uuid": self.uuid,
            "epoch": self.state.epoch,
            "revision": self.number,
        }


def deliver(manager: HostManager, *messages: Message) -> None:
    for message in messages:
        message(manager)


def assumable(agent_state: NodeState, request: BuildRequest, operation_id: str | None = None):
    """Return the claim that a selection would assume on this state, or None if it does not fit."""
    asked = call(operation_id=operation_id or uid())
    decision = claims.instance_claim(agent_state, asked, NOON, request)
    return decision.claims[0] if isinstance(decision, Granted) else None


def reported(*agents: ReportingAgent) -> HostManager:
    """Return a manager that has everything of these agents."""
    manager = HostManager(ManualClock(), NullReporter(), lambda _: None)
    for agent in agents:
        deliver(manager, *agent.answer())
    return manager
