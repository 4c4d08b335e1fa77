"""Secrets: the passwords in a configuration, which no report may show."""

import re
from collections.abc import Iterator
from urllib.parse import unquote

from oslo_config import cfg

from rtagent.conf import placement
from rtagent.conf.libraries import listed
from rtagent.conf.unknown import NAMESPACES

HIDDEN = "***"
#: User and password in a URL. A password may contain "@"; the last one ends it.
_USER = re.compile(r"(?<=://)[^\s/'\"]+@")
#: The passwords of a URL: those of several hosts, and one with characters that should be encoded.
_PASSWORDS = (re.compile(r"[/,][^\s/:@,]*:([^\s/@]*)@"), re.compile(r"://[^\s/:@]*:(\S*)@"))
#: The length from which a text is hidden wherever it occurs. A shorter one occurs by chance.
SHORTEST = 4


class Secrets:
    """The values of the secret options of a parsed configuration."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def masked(self, text: str) -> str:
        """Return a text without secret values, and without user and password in its URLs."""
        for value in sorted(set(self._values()), key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return _USER.sub(f"{HIDDEN}@", text)

    def _values(self) -> Iterator[str]:
        section, chosen = placement.chosen(self._conf)
        self._conf.register_opts(chosen, group=section)
        for group, options in [*listed(NAMESPACES), (section, chosen)]:
            for option in options:
                if option.secret:
                    yield from _parts(self._read(group, option.dest))

    def _read(self, group: str | None, name: str) -> str:
        try:
            section = self._conf[group] if group and group != "DEFAULT" else self._conf
            return str(section[name] or "")
        except (cfg.Error, ValueError, KeyError):  # not registered by this daemon, or unreadable
            return ""


def _parts(value: str) -> Iterator[str]:
    """Yield what must not be shown of a value: all of it, and the passwords of a URL."""
    passwords = [found for pattern in _PASSWORDS for found in pattern.findall(value)]
    for part in (value, *passwords, *map(unquote, passwords)):
        if len(part) >= SHORTEST:
            yield part
