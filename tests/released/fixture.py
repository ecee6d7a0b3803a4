"""What earlier versions wrote, put in place for a test."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bson import json_util

if TYPE_CHECKING:
    from pymongo import MongoClient

RELEASES = Path(__file__).parent
FIRST = RELEASES / "0.1.0"
VERSIONS = {9: FIRST, 10: RELEASES / "schema-10", 12: RELEASES / "schema-12"}
"""The folder of each schema."""
DB_NAME = "released"


def known(store: str, release: Path = FIRST) -> dict[str, Any]:
    """What that version knew: `store` is sqlite or mongodb."""
    found: dict[str, Any] = json.loads((release / "known.json").read_text(encoding="utf-8"))[store]
    return found


def put_file(folder: Path, release: Path = FIRST) -> Path:
    """The SQLite file, unpacked into the folder as `data_dir` has it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{DB_NAME}.sqlite3"
    file.write_bytes(lzma.decompress((release / "memory.sqlite3.xz").read_bytes()))
    return file


def put_documents(client: MongoClient[Any], db_name: str, release: Path = FIRST) -> None:
    """The collections, without their indexes."""
    with lzma.open(release / "mongo.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            read = json_util.loads(line, json_options=json_util.JSONOptions(tz_aware=True))
            client[db_name][read["in"]].insert_one(read["document"])
