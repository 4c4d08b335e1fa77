"""AggregateImagePropertiesIsolation: aggregates that only certain images are for."""

from __future__ import annotations

from rtagent.scheduler.aggregate_values import values_of
from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


class AggregateImagePropertiesIsolation(Filter):
    """Refuse a host whose aggregates have other values for a property of the image.

    A host whose aggregates do not have the property as a key passes.
    """

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge images with properties, or only with those in the namespace of the option."""
        properties = {
            name: value
            for name, value in request.spec.image.properties.items()
            if value and name.startswith(self._prefix)
        }
        return (lambda host: _judge(host, properties)) if properties else None

    @property
    def _prefix(self) -> str:
        namespace = self.options.aggregate_image_properties_isolation_namespace
        separator = self.options.aggregate_image_properties_isolation_separator
        return f"{namespace}{separator}" if namespace else ""


def _judge(host: HostState, properties: dict[str, str]) -> Rejection | None:
    if not host.aggregates:
        return None
    for name, value in properties.items():
        values = values_of(host, name)
        if values and value not in values:
            shown = ", ".join(values)
            return Rejection(f"its aggregates are for {name} = {shown}, and the image has {value}")
    return None
