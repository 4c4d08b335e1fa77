"""Plugins by name, from entry points, so that other packages add their own."""

from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
from typing import Any

from stevedore import NamedExtensionManager

from rtagent.errors import ConfigError

#: The group of the options that name filters and weighers.
GROUP = "filter_scheduler"


def available(namespace: str) -> tuple[str, ...]:
    """Return the names of the installed plugins, sorted. None of them is imported."""
    return tuple(sorted({entry.name for entry in entry_points(group=namespace)}))


def load(
    namespace: str, names: Sequence[str], option: str, group: str = GROUP
) -> tuple[type[Any], ...]:
    """Return the classes with these names, each once, in the order of the names.

    :param namespace: the group of the entry points.
    :param option: that names them, and its group, for the error.
    :raises ConfigError: there is no such plugin, or it cannot be imported.
    """
    wanted = list(dict.fromkeys(names))

    def refuse(_manager: object, entry: Any, error: BaseException) -> None:
        rule = f"cannot be loaded from {entry.value}: {error or type(error).__name__}"
        raise ConfigError(group=group, option=option, value=entry.name, rule=rule) from error

    def miss(missing: Iterable[str]) -> None:
        name = min(missing, key=wanted.index)
        rule = f"is not installed. Installed are: {', '.join(available(namespace))}"
        raise ConfigError(group=group, option=option, value=name, rule=rule)

    manager: NamedExtensionManager[Any] = NamedExtensionManager(
        namespace,
        wanted,
        name_order=True,
        on_load_failure_callback=refuse,
        on_missing_entrypoints_callback=miss,
    )
    return tuple(extension.plugin for extension in manager)
