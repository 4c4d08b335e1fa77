"""The pages for people: rendered from the same data as the documents.

`/` is the first page, ``/page/NAME`` and ``/page/NAME/ITEM`` are the others, and
``/page/static/DIGEST/NAME`` are the assets. A page names no other host: it works without a network.
"""
