"""The reference of the RPC API as reStructuredText, made from the methods and their schemas."""

from collections.abc import Iterator, Mapping

from rtagent.model.base import MAX_INT
from rtagent.rpc import AGENT, SCHEDULER, schemas
from rtagent.rpc.method import Method
from rtagent.rpc.methods import AGENT_API, SCHEDULER_API, TABLES
from rtagent.rpc.schemas import Schema

_PLAIN = {"string": "string", "boolean": "boolean", "null": "null", "number": "number"}


_AGENT = f"""\
oslo.messaging: topic ``{AGENT}``, server ``<host>``, version {AGENT_API.version}, no
namespace. Arguments and replies are JSON; ``rtagent schema show METHOD`` prints their JSON Schemas,
``rtagent schema reference`` this page. ``rtagent.rpc.client.AgentAPI`` is the client for Python.

A call that changes state takes an ``operation_id``, a uuid that the caller chooses, and has one
effect under that id. Repeat it with the same id when its answer was lost, or when the error is
retriable (``StoreUnavailable``, ``TrackerBusy``, ``TooManyRequests``, ``NodeNotReady``,
``DuplicateHost``, ``HypervisorUnavailable``). After ``AllocationNotWritten`` the claim has ended:
repeat the request with a new id.
``node``, if given, must be the hypervisor's host name, and ``node_uuid`` the uuid of its node: a
call for another one is refused with ``NodeNotFound`` and has no effect. An optional argument may be
null. Integers go up to {MAX_INT}; 1.0 is not an integer.
"""

_SCHEDULER = f"""\
oslo.messaging: topic ``{SCHEDULER}``, version {SCHEDULER_API.version}, no namespace. A
call without a server reaches any scheduler, a fanout cast all of them. Arguments and replies are
JSON; ``rtagent schema show --topic {SCHEDULER} METHOD`` prints their JSON Schemas.
``rtagent.rpc.client.SchedulerAPI`` is the client for Python.

An optional argument may be null. Integers go up to {MAX_INT}; 1.0 is not an integer. The errors are
those of ``rtagent.errors`` and of ``rtagent.scheduler.errors``. A call may be repeated when its
answer was lost: what was selected for the lost answer is forgotten after ``[scheduler]
assume_timeout``.
"""
_INTRODUCTIONS = {AGENT: _AGENT, SCHEDULER: _SCHEDULER}


def reference(topic: str = AGENT) -> str:
    """Every method with its arguments, reply and errors, then every document that they use."""
    table = TABLES[topic].methods
    lines = [*_title("RPC reference", "="), _INTRODUCTIONS[topic], *_title("Methods", "-")]
    for method in table.values():
        lines += _method(method)
    lines += _title("Documents", "-")
    documents = _documents(table)
    for name in sorted(documents):
        lines += _document(name, documents[name])
    return "\n".join(lines).rstrip() + "\n"


def _method(method: Method) -> Iterator[str]:
    root = schemas.arguments(method)
    yield from _title(method.name, "~")
    yield method.effect
    yield ""
    yield from _fields(schemas.resolve(root, root))
    yield f":Role: {method.role}"
    yield f":Reply: {'none: it is cast' if method.cast else _type(schemas.reply(method))}"
    yield f":Errors: {', '.join(f'``{name}``' for name in method.all_errors)}"
    yield ""


def _document(name: str, schema: Schema) -> Iterator[str]:
    yield from _title(name, "~")
    if "description" in schema:
        yield schema["description"]
        yield ""
    yield from _fields(schema)


def _documents(table: Mapping[str, Method]) -> dict[str, Schema]:
    """Every document, except the objects that arguments form: those are shown with the methods,
    unless the arguments of another method have them, too."""
    found: dict[str, Schema] = {}
    for of in (schemas.reply, schemas.arguments):  # arguments last: they say what is optional
        for method in table.values():
            documents = of(method).get("$defs", {}).items()
            own = method.arguments.__name__
            found.update((name, schema) for name, schema in documents if name != own)
    return found


def _fields(schema: Schema) -> Iterator[str]:
    required = set(schema["required"])
    for name, field in schema["properties"].items():
        word = "" if name in required else ", optional"
        meaning = f"; {field['description']}" if "description" in field else ""
        yield f"- ``{name}``: {_type(field)}{word}{meaning}"
    yield ""


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return f"{schema['$ref'].rpartition('/')[2]}_"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"``{value}``" for value in schema["enum"])
    match schema.get("type"):
        case "integer":
            return f"integer{_bounds(schema)}"
        case "array":
            return f"list of {_type(schema['items'])}"
        case "object":
            return f"map of name to {_type(schema.get('additionalProperties', {}))}"
        case "string":
            return _string(schema)
    return _PLAIN.get(schema.get("type", ""), "any value")


def _string(schema: Schema) -> str:
    if schema.get("format") == "date-time":
        return "time (RFC 3339)"
    if schema.get("maxLength") == 36:
        return "uuid"
    return "string"


def _bounds(schema: Schema) -> str:
    return f" from {schema['minimum']}" if "minimum" in schema else ""


def _title(text: str, underline: str) -> list[str]:
    return [text, underline * len(text), ""]
