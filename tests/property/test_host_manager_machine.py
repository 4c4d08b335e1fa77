"""Random lives of two agents, a scheduler and the messages between them.

Messages are lost, doubled and delivered in any order; agents and the scheduler are restarted;
selections assume claims that are granted, refused, released or given up. Each claim has a power of
4 as its disk, so the view's sum shows exactly which claims it counts, and how often.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from rtagent.model.request import BuildRequest
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager, Times
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.report import instances_of
from rtagent.scheduler.tracked_host import ASK_AGAIN, Wanted
from tests.support.hosts import PINNED, PINNING, TOPOLOGY, ManualClock, host, request, uid
from tests.support.reporting_agents import Message, ReportingAgent, assumable

#: The most claims of one run: their disks are powers of 4, in MB.
MOST = 20
TIMES = Times(down=60.0, assume=30.0)
#: The unit of a digit. Numbers of MB up to 2**31 are swap, larger ones are root disks.
_SWAPS = 10
_HOST = host(replace(TOPOLOGY, disk_mb=4 ** (MOST + 1)), numa=PINNING, cpu_allocation_ratio=16)

agents = st.sampled_from([0, 1])
picks = st.integers(0, 1000)


class Selected:
    """A claim that the scheduler has assumed. :ivar until: when it forgets it."""

    def __init__(self, agent: int, number: int, until: float) -> None:
        self.agent, self.number, self.until = agent, number, until


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.agents = [ReportingAgent(name, replace(_HOST, revision=1)) for name in ("cn1", "cn2")]
        self.wire: list[Message] = []
        self.delivered: list[Message] = []
        self.asked: list[Wanted] = []
        self.numbers = 0
        self.requests: dict[int, tuple[BuildRequest, str]] = {}
        self.selected: dict[int, Selected] = {}
        #: The claims of each agent, by position; and those that ever were.
        self.truth: list[dict[tuple[int, int], frozenset[int]]] = [{}, {}]
        for agent in (0, 1):
            self.note(agent)
        self.start()

    def start(self) -> None:
        self.manager = HostManager(self.clock, NullReporter(), self.asked.append, TIMES)
        self.manager.begin(settle=5)

    def note(self, agent: int) -> None:
        state = self.agents[agent].state
        numbers = {
            number for number, (_, operation) in self.requests.items() if operation in state.claims
        }
        self.truth[agent][state.epoch, state.revision] = frozenset(numbers)

    # -- agents -----------------------------------------------------------------------------------

    @rule(agent=agents)
    def publish(self, agent: int) -> None:
        self.wire += self.agents[agent].messages()

    @rule(agent=agents)
    def publish_digest(self, agent: int) -> None:
        self.wire.append(self.agents[agent].digest())

    @rule(agent=agents)
    def restart_agent(self, agent: int) -> None:
        self.agents[agent].restart()
        self.note(agent)

    @precondition(lambda self: self.numbers < MOST)
    @rule(agent=agents, pinned=st.booleans())
    def claim_of_another_scheduler(self, agent: int, pinned: bool) -> None:
        asked, operation = self.new_request(pinned)
        self.agents[agent].claim(asked, operation)
        self.note(agent)

    @rule(agent=agents, pick=picks)
    def release(self, agent: int, pick: int) -> None:
        claims = sorted(self.agents[agent].state.claims)
        if claims:
            self.agents[agent].release(claims[pick % len(claims)])
            self.note(agent)

    @rule(agent=agents, fates=st.lists(st.sampled_from(["now", "late", "lost", "twice"])))
    def publish_at_once(self, agent: int, fates: list[str]) -> None:
        for at, message in enumerate(self.agents[agent].messages()):
            fate = fates[at] if at < len(fates) else "now"
            if fate in ("now", "twice"):
                self.delivered.append(message)
                message(self.manager)
            if fate in ("late", "twice"):
                self.wire.append(message)

    # -- messages ---------------------------------------------------------------------------------

    @rule(pick=picks)
    def deliver(self, pick: int) -> None:
        if self.wire:
            message = self.wire.pop(pick % len(self.wire))
            self.delivered.append(message)
            message(self.manager)

    @rule()
    def deliver_all(self) -> None:
        while self.wire:
            self.deliver(0)

    @rule(pick=picks)
    def double(self, pick: int) -> None:
        if self.delivered:
            self.delivered[pick % len(self.delivered)](self.manager)

    @rule(pick=picks)
    def lose(self, pick: int) -> None:
        if self.wire:
            del self.wire[pick % len(self.wire)]

    # -- the scheduler ----------------------------------------------------------------------------

    @precondition(lambda self: self.numbers < MOST)
    @rule(agent=agents, pinned=st.booleans())
    def select(self, agent: int, pinned: bool) -> None:
        uuid = self.agents[agent].uuid
        seen = self.manager.get_host_state(uuid)
        if seen is not None:
            asked, operation = self.new_request(pinned)
            replica = self.manager.replica_for(seen, asked.instance.uuid)
            claim = assumable(replica, asked, operation)
            if claim is not None:
                self.manager.assume(uuid, claim, here=True)
                until = self.clock.monotonic() + TIMES.assume
                self.selected[self.numbers - 1] = Selected(agent, self.numbers - 1, until)

    @rule(pick=picks)
    def answer(self, pick: int) -> None:
        for each in self.some_selected(pick):
            if each.until <= self.clock.monotonic():
                continue  # it is forgotten already
            each.until = self.clock.monotonic() + 20
            self.manager.assumed_until([self.requests[each.number][1]], each.until)

    @rule(pick=picks)
    def grant(self, pick: int) -> None:
        for each in self.some_selected(pick):
            agent, (asked, operation) = self.agents[each.agent], self.requests[each.number]
            if not self.was_granted(each):
                agent.claim(asked, operation)
                self.note(each.agent)

    @rule(pick=picks)
    def give_up(self, pick: int) -> None:
        for each in self.some_selected(pick):
            self.manager.forget_claim(self.requests[each.number][1])
            del self.selected[each.number]

    @rule(seconds=st.sampled_from([0.1, 1, 6, 20, 31]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.manager.tick()
        self.answer_asked()

    @rule()
    def restart_scheduler(self) -> None:
        self.selected.clear()
        self.start()
        self.answer_asked()

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    def view_counts_each_claim_once(self) -> None:
        now = self.clock.monotonic()
        for seen in self.manager.get_all_host_states():
            agent = next(n for n in (0, 1) if self.agents[n].uuid == seen.uuid)
            counted = counted_in(seen)
            reported = self.truth[agent][seen.base.epoch, seen.base.revision]
            assumed = {n for n, each in self.selected.items() if each.agent == agent}
            assert reported <= counted <= reported | assumed
            for number in sorted(assumed - reported):
                each = self.selected[number]
                if each.until <= now:
                    assert number not in counted
                elif not self.had_been_granted(each, seen):
                    assert number in counted
            lasting = {n for n in assumed & counted if self.selected[n].until > now}
            owners = {self.requests[number][0].instance.uuid for number in lasting}
            assert owners <= seen.instances.keys() and owners <= seen.instances_here

    def teardown(self) -> None:
        """Let messages flow: the view becomes the truth."""
        for _ in range(3):
            self.clock.advance(max(ASK_AGAIN, TIMES.assume))
            for each in self.agents:
                self.wire += each.messages()
            self.deliver_all()
            self.manager.tick()
            self.answer_asked()
            self.deliver_all()
        self.view_counts_each_claim_once()
        seen = {each.uuid: each for each in self.manager.get_all_host_states()}
        for agent in self.agents:
            view, state = seen[agent.uuid], agent.state
            assert view.base == state.position
            assert view.replica.usage == state.usage
            assert view.replica.counters == state.counters
            assert dict(view.instances) == instances_of(state)
            assert view.instances_here == set(state.owners)
        self.asked.clear()
        self.clock.advance(ASK_AGAIN)
        self.manager.tick()
        assert self.asked == []

    # -- helpers ----------------------------------------------------------------------------------

    def new_request(self, pinned: bool):
        number, self.numbers = self.numbers, self.numbers + 1
        swap, root = (4**number, 0) if number < _SWAPS else (0, 4 ** (number - 5))
        specs = PINNED if pinned else {}
        asked = request(1, 64, root, swap=swap, owner=uid(), extra_specs=specs)
        self.requests[number] = asked, uid()
        return self.requests[number]

    def some_selected(self, pick: int) -> list[Selected]:
        known = sorted(self.selected)
        return [self.selected[known[pick % len(known)]]] if known else []

    def was_granted(self, each: Selected) -> bool:
        return any(each.number in numbers for numbers in self.truth[each.agent].values())

    def had_been_granted(self, each: Selected, seen: HostState) -> bool:
        """Whether the host's agent had granted the claim before the report in use."""
        upto = seen.base.epoch, seen.base.revision
        return any(
            at <= upto and each.number in numbers for at, numbers in self.truth[each.agent].items()
        )

    def answer_asked(self) -> None:
        for wanted in self.asked:
            for agent in self.agents:
                if wanted.host in (None, agent.name):
                    self.wire += agent.answer()
        self.asked.clear()


def counted_in(seen: HostState) -> set[int]:
    """Return the numbers of the claims that the sum counts."""
    left, numbers = seen.disk_mb_used, set()
    for number in range(MOST):
        left, digit = divmod(left, 4)
        assert digit in (0, 1), f"claim {number} is counted {digit} times"
        if digit:
            numbers.add(number)
    assert left == 0
    return numbers


TestMachine = Machine.TestCase
TestMachine.settings = settings(stateful_step_count=60)
