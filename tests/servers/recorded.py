"""Real HTTP servers on loopback that keep a language model's answers in a file, and that give them again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from tests.servers.loopback import Answering, Loopback

Request = dict[str, Any]
_PATIENCE_SECONDS: Final = 1_200
_SHOWN_CHARS: Final = 300
_HELP: Final = re.compile(r"^\((?:Noted before|Before it)\b.*\)$", re.MULTILINE)
"""Facts that are known by then and the turns before, of a request for facts."""
_FOLDER: Final = re.compile(rb"/[^\s\"]+/(?=site-packages/)")
"""Where a server is installed, which some tell in their errors."""
_KEPT: Final = ("choices", "usage", "error", "detail", "message")
"""Of an answer; the rest are ids and times."""


def asked_in(request: Request) -> str:
    """What a request asks about: its last message to the model, without what only helps to understand that, nor white space."""
    said = [str(message["content"]) for message in request["messages"] if message["role"] == "user"]
    return " ".join(_HELP.sub(" ", said[-1] if said else "").split())


def key_of(request: Request) -> str:
    """The name of a recorded answer: what is asked about, and in which form."""
    form = request.get("response_format", {}).get("type", "text")
    return hashlib.sha256(f"{form}\n{asked_in(request)}".encode()).hexdigest()[:16]


def share_read(answers: Sequence[Mapping[str, Any]]) -> float:
    """The share of a model's replies that hold JSON, be there text around it."""
    said = [answer["choices"][0]["message"]["content"] or "" for answer in answers if answer.get("choices")]
    return sum(map(_holds_json, said)) / max(len(said), 1)


def _holds_json(text: str) -> bool:
    for start in re.finditer(r"[{\[]", text):
        with contextlib.suppress(ValueError):
            json.JSONDecoder(strict=False).raw_decode(text, start.start())
            return True
    return False


def read_records(file: Path) -> dict[str, dict[str, Any]]:
    """The answers of a file by their key; of several with one key the last."""
    rows = map(json.loads, file.read_text("utf-8").splitlines()) if file.exists() else ()
    return {row["key"]: row for row in rows}


class _Handler(Answering["_Answers"]):
    def answer(self, body: bytes) -> None:
        told = self.script.reply_to(self.path, body)
        if told is None:
            self.close_connection = True
            return
        status, payload = told
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


class _Answers(Loopback):
    """What both have in common: `seen` are the answered chat requests' keys, in order."""

    handler = _Handler

    def __init__(self, file: Path, *, port: int = 0) -> None:
        super().__init__(port=port)
        self.file = file
        self.records = read_records(file)
        self.seen: list[str] = []
        self._lock = threading.Lock()

    def reply_to(self, path: str, body: bytes) -> tuple[int, bytes] | None:
        """Status and body of the answer; None hangs up."""
        raise NotImplementedError

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def answers(self) -> list[Any]:
        """The bodies that were sent, in order."""
        return [self.records[key]["body"] for key in self.seen]

    @property
    def seconds(self) -> float:
        """How long the model took when it was asked."""
        return float(sum(self.records[key]["seconds"] for key in self.seen))


class Recorder(_Answers):
    """Asks the server at `upstream` and appends its answers to `file`.

    A request that the file holds to the last character is answered from it, so that a recording that was
    interrupted goes on where it was. `tell` is called with how far it is.
    """

    def __init__(self, file: Path, upstream: str, *, tell: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(file)
        self.tell = tell
        self.upstream = upstream.rstrip("/").removesuffix("/v1")

    def reply_to(self, path: str, body: bytes) -> tuple[int, bytes]:
        if not path.endswith("/chat/completions"):
            return self._asked(path, body)
        request = json.loads(body)
        key, whole = key_of(request), hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        known = self.records.get(key)
        if known is None or known["request"] != whole:
            began = time.perf_counter()
            status, answer = self._asked(path, body)
            seconds = round(time.perf_counter() - began, 1)
            told = json.loads(_FOLDER.sub(b"", answer))
            told = {name: value for name, value in told.items() if name in _KEPT}
            known = {"key": key, "request": whole, "status": status, "seconds": seconds, "body": told}
            self.records[key] = known
            with self._lock, self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known, ensure_ascii=False) + "\n")
        self.seen.append(key)
        self.tell(f"request {len(self.seen)}: {known['status']} after {known['seconds']} s")
        return known["status"], json.dumps(known["body"]).encode()

    def tidy(self) -> None:
        """Leave in the file what was asked for by now alone, in order."""
        rows = [json.dumps(self.records[key], ensure_ascii=False) for key in dict.fromkeys(self.seen)]
        self.file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")

    def _asked(self, path: str, body: bytes) -> tuple[int, bytes]:
        request = urllib.request.Request(
            self.upstream + path, data=body or None, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


class Replay(_Answers):
    """Gives the answers in `file`, and 503 for a request that isn't in it; `missing` is what those ask about.

    It stops by itself when it is asked for more than `gives` answers: the request gets none, nor do those that follow
    until `start`, which listens on the same port.
    """

    def __init__(self, file: Path, *, gives: int | None = None) -> None:
        super().__init__(file)
        self.missing: list[str] = []
        self.gives = gives
        self.down = threading.Event()

    def start(self) -> Self:
        """Listen."""
        self.down.clear()
        return super().start()

    def stop(self) -> None:
        """Stop listening."""
        super().stop()
        self.down.set()

    def reply_to(self, path: str, body: bytes) -> tuple[int, bytes] | None:
        if not path.endswith("/chat/completions"):
            return 200, json.dumps(
                {"object": "list", "data": [{"id": "recorded", "object": "model"}]}
            ).encode()
        request = json.loads(body)
        key = key_of(request)
        if key not in self.records:
            self.missing.append(re.sub(r"\s+", " ", asked_in(request))[:_SHOWN_CHARS])
            return 503, json.dumps({"error": {"message": f"no recorded answer {key}"}}).encode()
        with self._lock:
            if self.gives is not None and len(self.seen) >= self.gives:
                self.gives = None
                self.stopping.set()
                threading.Thread(target=self.stop).start()
            if self.stopping.is_set():
                return None
        self.seen.append(key)
        return self.records[key]["status"], json.dumps(self.records[key]["body"]).encode()
