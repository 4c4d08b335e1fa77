"""JSON views of the decisions of a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from rtagent.scheduler.decision_log import Decision


def decision(made: Decision) -> Mapping[str, Any]:
    """``{"decision": decision}``: what the list of decisions has of it, and what it was made from.

    Each choice has ``why``, a sentence, and ``compared``: the weights of the selected host, of the
    best of the others, and, if the request was for one instance, of the alternates. ``refusals``
    has some of the refused hosts, ``unlisted`` is the number of the others.
    """
    logged = made.logged
    pairs = [(choice, made.comparisons[choice.instance_uuid]) for choice in logged.choices]
    choices = [
        {
            **asdict(choice),
            "why": comparison.why,
            "compared": (comparison.selected, *comparison.others),
        }
        for choice, comparison in pairs
    ]
    refusals = [
        {
            "host": refusal.host,
            "nodename": refusal.nodename,
            "node_uuid": refusal.uuid,
            "filter": refusal.filter,
            "message": refusal.rejection.message,
            "reasons": [reason.as_dict() for reason in refusal.rejection.reasons],
        }
        for refusal in made.refusals
    ]
    return {
        "decision": {
            **asdict(logged),
            "choices": choices,
            "refusals": refusals,
            "unlisted": sum(logged.refused.values()) - len(refusals),
        }
    }
