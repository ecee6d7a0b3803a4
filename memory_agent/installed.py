"""The way this copy was installed, so that an extra can be added the same way.

The name of this package alone is never the answer: whoever registers it somewhere first decides what it brings.
"""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from importlib import metadata, util
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_NAME: Final = "memory-agent"
_PACKAGE: Final = Path(__file__).parent


def how_to_install(*extras: str, package: Path = _PACKAGE) -> str:
    """The command that adds these extras to this copy, to be copied.

    From a clone, the clone with them; from an archive, a folder or a repository that pip was given, the same with
    them (PEP 610); else what the extras need, by name. `package`: the folder of this package's modules.
    """
    clone = package.parent
    if _is_clone(clone):
        return _pip(["-e", f"{clone}[{','.join(extras)}]"])
    found = _distribution(package)
    if found is not None and (origin := _origin(found)) is not None:
        return _pip([f"{_NAME}[{','.join(extras)}] @ {origin}"])
    needs = [] if found is None else _needs(found, extras)
    return (
        _pip(needs)
        if needs
        else f"install it again with the extra {' and '.join(extras)}, as it was installed"
    )


def _is_clone(folder: Path) -> bool:
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8")).get("project", {})
    except (OSError, ValueError):
        return False
    return bool(project.get("name") == _NAME)


def _distribution(package: Path) -> metadata.Distribution | None:
    """The metadata of this very copy; another one may be installed as well."""
    for found in metadata.distributions(name=_NAME, path=[str(package.parent)]):
        return found
    return None


def _origin(found: metadata.Distribution) -> str | None:
    """The address that pip was given, if it can still be had there."""
    try:
        direct = json.loads(found.read_text("direct_url.json") or "")
        url = str(direct["url"])
    except (ValueError, KeyError, TypeError):
        return None
    if url.startswith("file:") and not Path(unquote(urlsplit(url).path)).exists():
        return None
    if "vcs_info" not in direct:
        return url
    vcs, part = direct["vcs_info"], direct.get("subdirectory")
    return f"{vcs['vcs']}+{url}@{vcs['commit_id']}" + (f"#subdirectory={part}" if part else "")


def _needs(found: metadata.Distribution, extras: tuple[str, ...]) -> list[str]:
    from packaging.requirements import Requirement

    needs = []
    for line in found.requires or ():
        need = Requirement(line)
        if need.marker is not None and any(need.marker.evaluate({"extra": extra}) for extra in extras):
            need.marker = None
            needs.append(str(need))
    return needs


def _pip(arguments: list[str]) -> str:
    # uv makes environments without pip.
    if util.find_spec("pip") is None:
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *arguments])
    return shlex.join([sys.executable, "-m", "pip", "install", *arguments])
