"""Documents of domains, kept within a bound."""

import random

from rtagent.virt.libvirt.read_documents import LONGEST, ReadDocuments

NOISE = random.Random(7)


def noise(length: int) -> str:
    """Text that can hardly be compressed."""
    return "".join(chr(NOISE.randrange(33, 0x2FFF)) for _ in range(length))


def test_the_documents_that_were_not_read_for_longest_make_way():
    documents = ReadDocuments(capacity=5_000)
    for name in ("a", "b", "c", "a", "d", "e", "f"):  # two or three of them fit
        documents.keep(name, noise(500))
    left = [name for name in "abcdef" if documents.get(name)]
    assert 2 <= len(left) < 5
    assert left == sorted(["b", "c", "a", "d", "e", "f"][-len(left) :])


def test_a_document_that_is_too_long_is_not_kept():
    documents = ReadDocuments()
    documents.keep("a", "<a/>")
    documents.keep("a", "x" * (LONGEST + 1))
    assert documents.get("a") is None


def test_a_document_that_was_read_again_unchanged_counts_as_read_now():
    documents = ReadDocuments()
    documents.keep("a", "<a/>")
    read = documents.get("a")
    assert documents.confirm("a")
    assert (documents.get("a").xml, documents.get("a").at >= read.at) == ("<a/>", True)
    assert not documents.confirm("b")
