"""Errors of the scheduler, raised at the client with their types."""

from rtagent.errors import NotFound, RequestError, Unavailable


class NoValidHost(RequestError):
    """No host fits.

    :ivar kwargs: ``hosts``: how many were searched; ``refused``: the number of refused hosts by
        filter, in the order in which the filters ran; ``nearest``: the host that lacks least, with
        its reasons; or None; ``own_claims``: the uuids of the main claims that the instance has in
        the view, on hosts that the request does not ignore. If one of them has ended, the view is
        older than that, and a repetition may succeed.
    """

    template = "no valid host was found: {sentence}"


class SchedulerNotReady(Unavailable):
    """The view of the hosts is not complete yet."""

    template = "the scheduler does not know all hosts yet: {why}"
    retriable = True


class HostNotFound(NotFound):
    """The scheduler has no report of that host. :ivar kwargs: ``host``."""

    template = "the scheduler knows no host {host}: rtagent host list shows the hosts"


class DecisionNotFound(NotFound):
    """:ivar kwargs: ``decision``: the uuid of a decision, a claim or an instance."""

    template = (
        "this scheduler has no decision {decision}: it keeps the last ones in memory, and other"
        " schedulers keep theirs"
    )


class HostSetAside(HostNotFound):
    """No message of that host could be used yet. :ivar kwargs: ``host``; ``why``."""

    template = "the scheduler knows no host {host}, because its messages are set aside: {why}"


class AggregateNotFound(NotFound):
    """No aggregate has that uuid or name. :ivar kwargs: ``aggregate``."""

    template = "there is no aggregate {aggregate}: rtagent aggregate list shows the aggregates"


class AggregateConflict(RequestError):
    """The change contradicts the aggregates that exist. Nothing was changed."""


class AggregateNameExists(AggregateConflict):
    """:ivar kwargs: ``name``; ``uuid``: of the aggregate that has it."""

    template = "aggregate {uuid} has the name {name} already: choose another name"


class AggregateHostExists(AggregateConflict):
    """:ivar kwargs: ``aggregate``: its name; ``host``."""

    template = "host {host} is in aggregate {aggregate} already"


class AggregateHostNotFound(NotFound):
    """:ivar kwargs: ``aggregate``: its name; ``host``."""

    template = "host {host} is not in aggregate {aggregate}: rtagent aggregate list shows its hosts"


class AggregateNotEmpty(AggregateConflict):
    """:ivar kwargs: ``aggregate``: its name; ``hosts``: a text."""

    template = "aggregate {aggregate} still has hosts: remove {hosts} from it first"


class ZoneConflict(AggregateConflict):
    """A host would be in two availability zones.

    :ivar kwargs: ``host``; ``zone``; ``other_zone`` and ``other``: of the other aggregate.
    """

    template = (
        "host {host} would be in the availability zones {zone} and {other_zone}: change"
        " availability_zone of aggregate {other}, or remove the host from it, first"
    )


class SchedulingTimedOut(Unavailable):
    """The request was not decided in time. Nothing of it remains."""

    template = (
        "the request was not decided within {seconds} s: repeat it, or raise [scheduler]"
        " request_timeout"
    )
    retriable = True


class ConsumerHasAllocations(RequestError):
    """The instance of a move still has allocations. Transfer them to the migration first. Or it
    has others than the request expects.

    :ivar kwargs: ``consumer_uuid``.
    """

    template = (
        "{consumer_uuid} has allocations in Placement that the request does not expect: transfer"
        " those of its source to the migration before the request for a destination"
    )
