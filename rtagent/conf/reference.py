"""The configuration reference, as a page: made from the options themselves."""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg

from rtagent.conf import opts

TITLE = "Configuration reference"
INTRODUCTION = """\
Every option of ``rtagent.conf`` that rtagent itself reads, besides those of `oslo.log
<https://docs.openstack.org/oslo.log>`_ and `oslo.messaging
<https://docs.openstack.org/oslo.messaging>`_. Made from the options by ``rtagent config generate
--reference``. A name that Nova has too means the same as there.
"""


def render() -> str:
    """The whole page, as reStructuredText."""
    return "\n".join([*_heading(TITLE, "="), INTRODUCTION, *_sections()]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    for group, options in opts.list_opts():
        yield from _heading(f"[{group}]", "-")
        for option in options:
            yield from _option(option)


def _heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _option(option: cfg.Opt) -> Iterator[str]:
    yield f"``{option.dest}``"
    yield f"    *{'; '.join(_facts(option))}*"
    yield ""
    for paragraph in (option.help or "").strip().split("\n"):
        yield f"    {paragraph}".rstrip()
    yield ""


def _facts(option: cfg.Opt) -> Iterator[str]:
    kind = option.type
    yield getattr(kind, "type_name", "string").removesuffix(" value")
    default = option.sample_default if option.sample_default is not None else option.default
    yield "no default" if default in (None, []) else f"default: {default}"
    for name, words in (("min", "at least"), ("max", "at most")):
        bound = getattr(kind, name, None)
        if bound is not None:
            yield f"{words} {bound}"
    choices = getattr(kind, "choices", None)
    if choices:
        yield "one of " + ", ".join(map(str, choices))
    if option.mutable:
        yield "read again at a reload"
