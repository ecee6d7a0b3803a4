"""Ids within the path of an address."""

from urllib.parse import quote


def quoted_segment(text: str) -> str:
    """`text` as one segment of an address's path. '.' and '..' are encoded too: clients resolve them otherwise.

    >>> quoted_segment("a/b %"), quoted_segment("..")
    ('a%2Fb%20%25', '%2E%2E')
    """
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")
