"""What released versions wrote, put in place for a test; and a writer that runs a released version's own store."""

from __future__ import annotations

import json
import lzma
import os
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bson import json_util

if TYPE_CHECKING:
    from pymongo import MongoClient

RELEASES = Path(__file__).parent
FIRST = RELEASES / "0.1.0"
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


def old_stores(folder: Path, release: Path = FIRST) -> dict[str, str]:
    """The environment of a process that imports that version's stores as `memory_agent`."""
    with tarfile.open(release / "stores.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return {**os.environ, "PYTHONPATH": str(folder)}


OLD_WRITER = [sys.executable, "-P", str(RELEASES / "old_writer.py")]
"""Then `sqlite PATH` or `mongodb URI DB`; a line on its input stores a turn, and is answered by its number."""
