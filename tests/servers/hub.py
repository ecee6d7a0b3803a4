"""A real HTTP server on loopback that speaks enough of the Hugging Face hub's API to serve model folders from disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.servers.loopback import Answering, Loopback

COMMIT = "c0ffee" + "0" * 34
"""The only revision of every repository, also called "main"."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as it came in: `repository` and `file` are empty where the path names none."""

    method: str
    path: str
    repository: str = ""
    file: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """Their names in small letters."""


class _Handler(Answering["Hub"]):
    def answer(self, body: bytes) -> None:
        hub = self.script
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = hub.read(self.command, self.path, headers)
        hub.requests.append(request)
        status = hub.fault(request) if hub.fault else None
        if status is not None:
            self._refuse(status, f"answered {status} on purpose")
        elif request.repository not in hub.repositories:
            self._refuse(404, "Repository not found", code="RepoNotFound")
        elif not request.file:
            self._send(json.dumps(hub.describe(request)).encode(), {"Content-Type": "application/json"})
        elif (file := hub.repositories[request.repository].get(request.file)) is None:
            self._refuse(404, "Entry not found", code="EntryNotFound")
        else:
            self._send_file(file, request)

    def _send_file(self, file: Path, request: Request) -> None:
        hub, content = self.script, file.read_bytes()
        headers = {"ETag": f'"{hub.digest(file)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        sent = content[start:]
        most = len(sent) // 2 if request.file in hub.cut else None
        self._send(sent, headers, status=206 if start else 200, most=most)

    def _refuse(self, status: int, message: str, *, code: str = "") -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self._send(json.dumps({"error": message}).encode(), headers, status=status)

    def _send(
        self, content: bytes, headers: dict[str, str], *, status: int = 200, most: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:most])
        if most is not None:
            self.close_connection = True


class Hub(Loopback):
    """Serves what `add` was given.

    `fault`, if set, may answer a request with another status (None from it: as usual). Files whose name is in `cut`
    are sent by half, then the connection is dropped. `requests` keeps all that came in.
    """

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.fault: Callable[[Request], int | None] | None = None
        self.cut: set[str] = set()
        self.requests: list[Request] = []
        self.repositories: dict[str, dict[str, Path]] = {}
        self._digests: dict[Path, str] = {}

    @property
    def fetched(self) -> list[str]:
        """Names of the files whose content was asked for, in order of their names."""
        return sorted({request.file for request in self.requests if request.method == "GET" and request.file})

    def environment(self, home: Path) -> dict[str, str]:
        """For a process that shall use this hub, and `home` for its cache."""
        own = {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        return kept | own

    def add(self, repository: str, folder: Path, *, without: tuple[str, ...] = (), **more: Path) -> None:
        """Serve the files of `folder` but for the names in `without`; `more`: files by name, `__` for a slash."""
        files = {str(f.relative_to(folder)): f for f in sorted(folder.rglob("*")) if f.is_file()}
        kept = {name: file for name, file in files.items() if name not in without}
        self.repositories[repository] = kept | {
            name.replace("__", "/") + file.suffix: file for name, file in more.items()
        }

    def reset(self) -> None:
        """Forget repositories, faults and requests."""
        self.fault = None
        self.cut.clear()
        self.requests.clear()
        self.repositories.clear()

    # --- answers ---------------------------------------------------------------------------------------------
    def read(self, method: str, target: str, headers: dict[str, str]) -> Request:
        """What is asked for: `/api/models/{owner}/{name}[/…]` or `/{owner}/{name}/resolve/{revision}/{file}`."""
        path = unquote(urlsplit(target).path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            return Request(method=method, path=path, repository="/".join(parts[2:4]), headers=headers)
        if parts[2:3] == ["resolve"]:
            repository, file = "/".join(parts[:2]), "/".join(parts[4:])
            return Request(method=method, path=path, repository=repository, file=file, headers=headers)
        return Request(method=method, path=path, headers=headers)

    def describe(self, request: Request) -> Any:
        """The API's answer about a repository."""
        files = self.repositories[request.repository]
        if "/tree/" in request.path:
            return [self._entry(name, file) for name, file in files.items()]
        siblings = [{"rfilename": name} for name in files]
        return {"id": request.repository, "modelId": request.repository, "sha": COMMIT, "siblings": siblings}

    def digest(self, file: Path) -> str:
        """The file's SHA-256, which is its ETag."""
        if file not in self._digests:
            with file.open("rb") as stream:
                self._digests[file] = hashlib.file_digest(stream, "sha256").hexdigest()
        return self._digests[file]

    def _entry(self, name: str, file: Path) -> dict[str, Any]:
        size = file.stat().st_size
        entry: dict[str, Any] = {"type": "file", "path": name, "size": size, "oid": self.digest(file)[:40]}
        if size > 10_000_000:  # big files are kept elsewhere, as git-lfs does
            entry["lfs"] = {"oid": self.digest(file), "size": size, "pointerSize": 135}
        return entry
