"""Documents are accepted or refused here, before anything else looks at them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import fastjsonschema
import msgspec

from rtagent.errors import InvalidRequest
from rtagent.rpc import schemas
from rtagent.rpc.method import Arguments, Method
from rtagent.rpc.methods import METHODS


class Validator:
    """One method's: compiled when it is first called, called for each request."""

    def __init__(self, method: Method) -> None:
        self._method = method

    @functools.cached_property
    def _accepts(self) -> Callable[[Any], Any]:
        # Defaults are the types' business: the document must not be written to.
        compiled: Callable[[Any], Any] = fastjsonschema.compile(
            schemas.arguments(self._method), use_default=False, detailed_exceptions=False
        )
        return compiled

    def __call__(self, document: Any) -> Arguments:
        """The document as values.

        :raises InvalidRequest: naming every offending path.
        """
        try:
            self._accepts(document)
            return msgspec.convert(document, self._method.arguments)
        except (fastjsonschema.JsonSchemaValueException, msgspec.ValidationError) as refusal:
            raise self._refused(document, refusal) from refusal

    def _refused(self, document: Any, refusal: Exception) -> InvalidRequest:
        # What it is made of takes long to import: no start waits for it.
        from rtagent.rpc.offences import offences

        found = offences(schemas.arguments(self._method), document) or [("$", str(refusal))]
        errors = [{"path": path, "message": message} for path, message in found]
        return InvalidRequest(method=self._method.name, errors=errors)


@functools.cache
def validators() -> Mapping[str, Validator]:
    """Every method's, by name."""
    return {name: Validator(method) for name, method in METHODS.items()}


def digest(method: Method, document: Mapping[str, Any]) -> str:
    """What was asked, in short: the same for the same method and arguments. Null is absence.

    :param document: one that was accepted.
    """
    given = {name: value for name, value in document.items() if value is not None}
    return hashlib.sha256(msgspec.json.encode([method.name, given], order="sorted")).hexdigest()
