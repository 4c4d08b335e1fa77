"""Words that the project does not use any more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from measures.measure import Measure

#: Old terms, as regular expressions; what is used instead is the glossary's to say. Old words that
#: have another meaning which is right here, such as "memory", "table" or "Move", are left
#: out, as is "members", which server groups have.
OLD_WORDS = (
    "kernels?", "placing", "demands?", "amounts?", "holdings?", "holds", "offered", "moved",
    "arriving", "leaving", "ending", "broken[ _]off", "specific",
    "standing", "keepers?", "tenure", "pulse", "gate", "inbox", "sayings", "room", "taking",
    "shapes?", "beside", "kinship", "kinds", "asking", "contact", "news", "told", "said",
    "kept[ _]back", "kept[ _]idle", "not to be had", "hold of", "whoever", "somebody",
    "nobody", "deed", "tour", "giver", "pinner",
)  # fmt: skip
#: A reason code that callers match, paths of Linux, metrics with Nova's names, and a field of
#: oslo.messaging's replies.
ALLOWED = r"(?i:not_offered)|\"ending\"|/(proc/)?sys/kernel/|cpu\.kernel|\"kernel\"|``kernel``"
TELLING = r"\b(told|tell|tells)\b"

PLACES = ("rtagent", "doc", "README.rst")
TEXTS = (".cfg", ".conf", ".ini", ".json", ".mako", ".py", ".rst", ".txt", ".xml", ".yaml")


def measures(root: Path) -> Iterator[Measure]:
    """What is left of the old language in a tree."""
    yield Measure("words of the old language", sum(old_words(root).values()), 0)
    lines = sum(
        re.search(TELLING, line) is not None
        for path in texts(root, "rtagent")
        for line in path.read_text().splitlines()
    )
    yield Measure("lines with told, tell or tells in rtagent", lines, 10)


def old_words(root: Path) -> Counter[str]:
    """How often each old word is in the tree."""
    return sum((count(path.read_text()) for path in texts(root, *PLACES)), Counter())


def count(text: str) -> Counter[str]:
    """How often each old word is in a text, as a word of its own or a part of a name with
    underscores."""
    found: Counter[str] = Counter()
    text = re.sub(ALLOWED, "", text)
    for word in OLD_WORDS:
        pattern = word if word[0].isupper() else f"(?i:{word})"
        number = len(re.findall(rf"(?<![A-Za-z]){pattern}(?![A-Za-z])", text))
        if number:
            found[word] = number
    return found


def texts(root: Path, *places: str) -> list[Path]:
    """Files that people write, in these places of a tree."""
    found = [
        path
        for place in places
        for path in ([root / place] if (root / place).is_file() else (root / place).rglob("*"))
        if path.is_file() and path.suffix in TEXTS and "_build" not in path.parts
    ]
    return sorted(found)
