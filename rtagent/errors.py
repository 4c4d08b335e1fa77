"""All errors of rtagent::

    RtAgentError
    ├── RequestError                       the caller must change the request; crosses RPC
    │   ├── InvalidRequest                 the document violates its schema
    │   │   ├── InvalidFlavor              PropertyInvalid, PropertyConflict, FlavorImageConflict
    │   │   └── InvalidPciRequest          PciRequestAliasNotDefined
    │   ├── NotFound                       nothing here has that name
    │   │   └── ClaimNotFound, NodeNotFound, PciDeviceNotFound, ConsumerNotFound, FlavorNotFound
    │   ├── PciDevicesNotClaimed, RestoreNotFound   what the call is about is not there
    │   ├── ClaimConflict (UnitConflict), ClaimExpired, IllegalTransition, GuestRunning,
    │   │   DomainNotAdoptable, ConsumerInUse, NodeDraining   the state of the claim or the domain
    │   └── AllocationMismatch, ComputeResourcesUnavailable  refused, with reasons
    ├── Unavailable                        the same call may succeed later; crosses RPC
    │   ├── NodeNotReady (StoreRestored, DuplicateHost), StoreUnavailable, StoreDamaged
    │   ├── TakeoverPending, TrackerBusy, TooManyRequests   other agents or calls come first
    │   ├── AllocationNotWritten           the allocation of a new claim is not in Placement
    │   ├── HypervisorUnavailable, CpuPowerFailed   libvirt, or a host CPU for a guest
    │   └── AgentUnreachable               raised by a client: no agent answers
    ├── StoreError                         between a store and the state writer; never crosses RPC
    │   └── CommitUnknown, RevisionConflict, WriterFenced, ChangeRejected, SchemaMismatch, ...
    ├── IdentityError                      this process must not write for this node
    ├── ConfigError                        the value of an option violates its rule
    │   └── PciConfigError (PciConfigInvalidSpec, PciInvalidAlias), FileError (ProviderFileError,
    │       FlavorsFileError)
    ├── PlacementError                     PlacementConflict, PlacementUnavailable
    ├── EnactmentFailed (ClaimMismatch)    libvirt refused a conductor's order for a guest
    └── InvariantViolated                  a defect in rtagent: granting stops

The message of an error is made from its ``kwargs``, so it is the same on both sides of RPC.
"""

from typing import Any, ClassVar, Self


class RtAgentError(Exception):
    """The base of all errors.

    :cvar retriable: the same call may succeed later.
    :cvar expected: caused by the caller or the environment; logged without a traceback.
    :cvar listed: the list in ``kwargs`` whose messages are the message; "": `template` is.
    """

    template: ClassVar[str] = "{detail}"
    listed: ClassVar[str] = ""
    retriable: ClassVar[bool] = False
    expected: ClassVar[bool] = False

    def __init__(self, detail: str | None = None, **kwargs: Any) -> None:
        # oslo.messaging rebuilds an error from args and kwargs, so all data goes into kwargs.
        super().__init__()
        if detail is not None:
            kwargs["detail"] = detail
        self.kwargs: dict[str, Any] = kwargs

    @property
    def message(self) -> str:
        """The message, made from the data."""
        if self.listed:
            return "; ".join(each["message"] for each in self.kwargs.get(self.listed, ()))
        return self.template.format(**{"detail": type(self).__doc__, **self.kwargs})

    def __str__(self) -> str:
        return self.message

    def as_dict(self) -> dict[str, Any]:
        """Return ``{"error", "message", "retriable", ...kwargs}``, JSON primitives."""
        own = {"error": type(self).__name__, "message": self.message, "retriable": self.retriable}
        return {**self.kwargs, **own}


class RequestError(RtAgentError):
    """The request cannot be granted as it is."""

    expected = True


class InvalidRequest(RequestError):
    """The document violates its schema. :ivar kwargs: ``method``; ``errors``: (path, message)."""

    @classmethod
    def at(cls, method: str, path: str, message: str) -> Self:
        """Return the refusal of one value.

        :param method: or the command, or the path of the read API.
        :param path: in the document; or the option, the parameter, or a place in a file.
        """
        return cls(method=method, errors=[{"path": path, "message": message}])

    @property
    def message(self) -> str:
        errors = "; ".join(f"{e['path']}: {e['message']}" for e in self.kwargs.get("errors", ()))
        return f"invalid request to {self.kwargs.get('method', '?')}: {errors}"


class InvalidFlavor(InvalidRequest):
    """Flavor and image together describe no valid guest. :ivar kwargs: ``properties``, ``rule``."""

    @property
    def message(self) -> str:
        sides = (f"{name}={value}" for name, value in self.kwargs.get("properties", {}).items())
        return f"{', '.join(sides)}: {self.kwargs.get('rule', '?')}"


class PropertyInvalid(InvalidFlavor):
    """A value violates the rule of its property."""


class PropertyConflict(InvalidFlavor):
    """The values of several properties exclude each other."""


class FlavorImageConflict(InvalidFlavor):
    """The image contradicts the flavor where it must not."""


class InvalidPciRequest(InvalidRequest):
    """A request for devices, in ``where`` (an extra spec, a PCI request), is invalid."""

    @property
    def message(self) -> str:
        return f"{self.kwargs['where']} = {self.kwargs['value']}: {self.kwargs['rule']}"


class PciRequestAliasNotDefined(InvalidPciRequest):
    """No [pci] alias of this host has that name."""


class NotFound(RequestError):
    """Nothing here has the name that the call gives."""


class ClaimNotFound(NotFound):
    """This node has no claim ``claim_uuid``, or none of ``owner_id`` (for ``migration_uuid``)."""

    @property
    def message(self) -> str:
        if "claim_uuid" in self.kwargs:
            return f"no claim {self.kwargs['claim_uuid']} is known here"
        move = f" for migration {uuid}" if (uuid := self.kwargs.get("migration_uuid")) else ""
        return f"instance {self.kwargs['owner_id']} has no claim here{move}"


class PciDeviceNotFound(NotFound):
    """This node has no record of a device with that address."""

    template = "no PCI device {address} is known here: rtagent pci list shows the known devices"


class FlavorNotFound(NotFound):
    """No live claim has a flavor of that name, and the operator's file does not list it."""

    template = "no flavor {flavor} is in the catalogue: {command} shows the flavors"


class PciDevicesNotClaimed(RequestError):
    """The claims of the call have the devices ``claimed``, and not all of ``devices``."""

    @property
    def message(self) -> str:
        asked, has = (", ".join(self.kwargs[key]) for key in ("devices", "claimed"))
        whose = f"the claims of instance {self.kwargs['owner_id']} that this call is for"
        return f"{asked}: {whose} have {has or 'no devices'}"


class RestoreNotFound(RequestError):
    """No restored store awaits acceptance at ``revision``, but what ``pending`` says."""

    template = (
        "no restored database awaits acceptance at revision {revision} (pending: {pending}): see"
        " rtagent node accept-restore"
    )


class ConsumerInUse(RequestError):
    """The consumer of an allocation in Placement has ``user``, a claim or a domain on this node."""

    template = (
        "the allocation of {consumer_uuid} is not deleted: {user} is on this node. Only an"
        " allocation without a claim, a move or a domain here can be deleted"
    )


class ConsumerNotFound(NotFound):
    """The consumer has no allocation on the providers of this node."""

    template = "{consumer_uuid} has no allocation on {node}"


class ClaimConflict(RequestError):
    """The owner already has a live claim, or the operation id was used for another request."""


class UnitConflict(ClaimConflict):
    """Other owners hold units of the claim. :ivar kwargs: ``conflicts``: documents."""

    listed = "conflicts"


class ClaimExpired(RequestError):
    """The claim has ended. A caller that receives this must not start the domain."""

    template = "claim {claim_uuid} has ended: make a new claim before starting the domain"


class IllegalTransition(RequestError):
    """The ``state`` of the claim or of the move does not allow the call (``verb``)."""

    @property
    def message(self) -> str:
        noun = "claim" if "claim_uuid" in self.kwargs else "migration"
        template = "{noun} {uuid} is {state}: {verb} is not legal in this state (legal: {legal})"
        return template.format(noun=noun, uuid=self.kwargs[f"{noun}_uuid"], **self.kwargs)


class GuestRunning(RequestError):
    """The domain of the claim's owner runs here, and the call does not say that it may."""

    template = (
        "the guest {owner_id} of claim {claim_uuid} runs here: stop it, or release the claim with"
        " --force and --reason, after which the guest is an orphan"
    )


class DomainNotAdoptable(RequestError):
    """The domain cannot have a claim as it is. The message says why."""


class NodeNotFound(NotFound):
    """The call is for ``node``, another node than the one that is ``served`` (name or uuid)."""

    template = "node {node} is not served here: this agent serves {served}"


class NodeDraining(RequestError):
    """The node gets no new claims (``detail``). Another one may: a repetition here is of no use."""

    template = "{node} gets no new claims: {detail}; rtagent node undrain ends that"


class AllocationMismatch(RequestError):
    """The allocations are not what the claim needs. :ivar kwargs: ``mismatches``: documents."""

    listed = "mismatches"


class ComputeResourcesUnavailable(RequestError):
    """The host lacks resources. :ivar kwargs: ``reasons``: documents, nearest miss first."""

    listed = "reasons"


class Unavailable(RtAgentError):
    """The call cannot be served now. The same call may succeed later."""

    retriable = expected = True


class NodeNotReady(Unavailable):
    """The agent has not finished its first audit; retry in a few seconds."""


class StoreRestored(NodeNotReady):
    """The database is older than what was acknowledged; ``revision`` has to be accepted."""

    template = (
        "{restored}: no new claims are granted until an operator accepts the database: rtagent node"
        " accept-restore"
    )


class DuplicateHost(NodeNotReady):
    """Another agent serves the same host name, so that a call may reach either of them."""

    template = (
        "two agents serve the host {host}: this one is {ours}; the other is {theirs}. Give one of"
        " them a [DEFAULT] host of its own, or stop it"
    )


class StoreUnavailable(Unavailable):
    """The database does not answer; retry with the same operation id."""


class StoreDamaged(StoreUnavailable):
    """The database is damaged. The message names damage and remedy. A start ends with it."""

    retriable = False


class TakeoverPending(Unavailable):
    """Another agent may still be the node's writer. Its heartbeat is watched for some seconds."""


class TrackerBusy(Unavailable):
    """The tracker was busy until the time-out; the request was withdrawn, and nothing changed."""


class TooManyRequests(Unavailable):
    """The ``limit`` of such calls (of the ``method``, if named) is reached; repeat the call."""


class AllocationNotWritten(Unavailable):
    """The allocation of a new claim was not written to Placement in time, and the claim ends."""

    template = (
        "the allocation of claim {claim_uuid} was not written to Placement within {seconds} s"
        " ({why}): {effect}. Repeat the request with a new operation id"
    )


class HypervisorUnavailable(Unavailable):
    """The hypervisor does not answer; no new claims are granted until it does."""


class CpuPowerFailed(HypervisorUnavailable):
    """A host CPU cannot be switched on or off, or its governor cannot be changed."""

    template = "CPU {cpu}: {wanted} cannot be written to {file}: {why}"


class AgentUnreachable(Unavailable):
    """Raised by a client: no server answers. It is unknown whether the call had an effect."""

    template = "no answer from {where} ({why}): {remedy}"


class StoreError(RtAgentError):
    """An error that a store reports to the state writer."""


class CommitUnknown(StoreError):
    """The connection was lost while COMMIT was in flight. Only the database has the outcome."""


class RevisionConflict(StoreError):
    """The node's row has another revision than this process."""


class WriterFenced(StoreError):
    """A newer writer has taken this node over. This process must stop."""

    template = (
        "node {node_uuid}: a newer writer has epoch {theirs}, ours is {ours}: stopping. Another"
        " agent has taken the node over, or its record was removed: make sure that no other agent"
        " serves the node before you start this one again"
    )


class ChangeRejected(StoreError):
    """The database refused the rows. :ivar kwargs: ``taken``: a key already exists."""


class Deadlock(StoreError):
    """The database ended the transaction in favour of another. Nothing was written."""


class SchemaMismatch(StoreError):
    """The schema of the database is not the one that this code writes."""


class NotDurable(StoreError):
    """The database may lose what it has committed. The message names the setting and the remedy."""


class IdentityError(RtAgentError):
    """This process must not write for this node. The message names the remedy."""

    expected = True


class ConfigError(RtAgentError):
    """The value of an option violates its rule."""

    template = "[{group}] {option} = {value}: {rule}"
    expected = True


class PciConfigError(ConfigError):
    """A JSON document in an option of [pci] is invalid. :ivar kwargs: ``index`` of the value and of
    the document in a list (``1[0]``, from 0); ``key`` in it, or ""; ``value``; violated ``rule``.
    """

    template = "[{group}] {option} {index}: {key} = {value}: {rule}"


class PciConfigInvalidSpec(PciConfigError):
    """A document of [pci] device_spec is invalid."""


class PciInvalidAlias(PciConfigError):
    """A document of [pci] alias is invalid."""


class FileError(ConfigError):
    """A file that an option names is invalid. :ivar kwargs: ``file``, ``path`` in it (or ""),
    ``rule``.
    """

    @property
    def message(self) -> str:
        return ": ".join(filter(None, (self.kwargs[key] for key in ("file", "path", "rule"))))


class ProviderFileError(FileError):
    """A provider file is invalid."""


class FlavorsFileError(FileError):
    """The file of ``[capacity] flavors_file`` is invalid."""


class PlacementError(RtAgentError):
    """Placement refused or failed a request."""

    expected = True


class PlacementConflict(PlacementError):
    """Placement has another generation of a provider than this process."""


class PlacementUnavailable(PlacementError):
    """Placement does not answer, or answers with a server error."""

    retriable = True


class InvariantViolated(RtAgentError):
    """The state violates an invariant, by a defect. Granting stops until a restart."""


class EnactmentFailed(RtAgentError):
    """The hypervisor of ``host`` refused an order for a guest.

    :ivar kwargs: ``host``; ``server_uuid``; ``action``, like "start"; ``why``.
    """

    template = "{host}: cannot {action} the domain of server {server_uuid}: {why}"
    expected = True


class ClaimMismatch(EnactmentFailed):
    """The server's domain is of another claim than the order, or of none. It was not touched."""

    template = EnactmentFailed.template + ": if it is the server's, put its claim into the metadata"
