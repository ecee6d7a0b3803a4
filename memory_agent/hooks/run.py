"""The program that a coding agent runs: `python -IS run.py recall|remember SETTINGS`, with the agent's JSON on standard input.

It never holds the agent up and never fails: what goes wrong is a line in the log beside SETTINGS, nothing is printed, and the
exit code is 0. For that it is a file by itself that loads little of Python's library and nothing of this package, which
would take longer than an answer does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

MAX_TOKENS = 2_000
LIMIT_SECONDS = 0.25
"""Of a prompt's wait, from the start of the process; leaving takes another hundredth."""
_SPAWN_SECONDS = 2.0
_MOST_BYTES = 4_000_000
_MOST_LOG_BYTES = 100_000


def main(what: str, settings_file: str) -> None:
    """Do it, print what the agent is to be told, and end the process, whatever is still under way."""
    sys.stdout.buffer.write(answer(what, settings_file, since_start=_runs_for()).encode())
    sys.stdout.flush()
    os._exit(0)


def answer(what: str, settings_file: str, *, since_start: float = 0.0) -> str:
    """Do what there is time for; what the agent is to be told. `since_start`: seconds that are over already."""
    done: list[str] = []
    work = threading.Thread(target=_try, args=(what, settings_file, done), daemon=True)
    work.start()
    limit = LIMIT_SECONDS if what == "recall" else _SPAWN_SECONDS
    work.join(max(limit - since_start, 0.0))
    if work.is_alive():
        log(settings_file, f"{what}: no answer within {limit:g} s")
        return ""
    return "".join(done)


def _try(what: str, settings_file: str, done: list[str]) -> None:
    try:
        with open(settings_file, encoding="utf-8") as file:
            settings = json.load(file)
        said = json.loads(sys.stdin.buffer.read())
        if what == "remember":
            _hand_on(settings, settings_file, said)
        elif context := recall(settings, said):
            done.append(_for_host(settings["host"], context))
    except Exception as exc:
        log(settings_file, f"{what}: {type(exc).__name__}: {exc}")


def _runs_for() -> float:
    """For how many seconds this process runs; where the system doesn't tell, for how long it computes."""
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return time.process_time()


def log(settings_file: str, line: str) -> None:
    """Add a line to the log beside the settings; begin it anew when it has grown large."""
    try:
        path = os.path.join(os.path.dirname(settings_file), "log")
        grown = os.path.exists(path) and os.path.getsize(path) > _MOST_LOG_BYTES
        with open(path, "w" if grown else "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line[:500]}\n")
    except OSError:
        pass


def project_of(said: dict) -> str:  # type: ignore[type-arg]
    """The folder that the agent works in, which names the thread."""
    roots = said.get("workspace_roots") or [""]
    folder = os.environ.get("CLAUDE_PROJECT_DIR") or roots[0] or said.get("cwd") or ""
    return folder.rstrip("/\\") or folder


# --- recall --------------------------------------------------------------------------------------------------
def recall(settings: dict, said: dict) -> str:  # type: ignore[type-arg]
    """Ask for what is known for the prompt; empty if there is nothing, or the prompt is a command of the agent such as /clear."""
    prompt = said.get("prompt") or ""
    words = prompt.split(maxsplit=1)
    if not words or (words[0][0] == "/" and "/" not in words[0][1:]):
        return ""
    url, key = _service(settings)
    names = (_quoted(settings["user"]), _quoted(project_of(said)))
    asked = {"user_message": prompt[:100_000], "max_tokens": MAX_TOKENS, "preset": "recall"}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if settings["tenant"] != "default":
        headers["Memory-Agent-Tenant"] = settings["tenant"]
    answer = _ask(url, "POST /api/threads/{}/{}/fetch".format(*names), headers, asked)
    text = answer["text"]
    return text if isinstance(text, str) else ""


def _for_host(host: str, context: str) -> str:
    if host == "cursor":
        return json.dumps({"continue": True, "additional_context": context})
    told = {"hookEventName": "UserPromptSubmit", "additionalContext": context}
    return json.dumps({"hookSpecificOutput": told})


def _service(settings: dict) -> tuple[str, str]:  # type: ignore[type-arg]
    """Address and key: those of the settings, or of the process that holds the folder and proves that it does."""
    if settings["url"]:
        if not settings["key_file"]:
            return settings["url"], ""
        with open(settings["key_file"], encoding="utf-8") as file:
            return settings["url"], file.read().strip()
    try:
        with open(os.path.join(settings["data_dir"], ".service.json"), encoding="utf-8") as file:
            left = json.load(file)
    except FileNotFoundError:
        raise ConnectionError(f"no process serves the memory in {settings['data_dir']}") from None
    import hashlib
    import hmac

    nonce = os.urandom(16).hex()
    secret = hashlib.sha256(left["api_key"].rsplit("_", 1)[-1].encode()).hexdigest()
    wanted = hmac.digest(secret.encode(), nonce.encode(), "sha256").hex()
    proof = _ask(left["url"], f"GET /holder?nonce={nonce}", {})["proof"]
    if not hmac.compare_digest(wanted, proof):
        raise ConnectionError("what listens at the address of the memory's folder does not hold it")
    return left["url"], left["api_key"]


def _quoted(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else f"%{b:02X}" for c in text for b in c.encode())


def _ask(url: str, what: str, headers: dict, body: object = None) -> dict:  # type: ignore[type-arg]
    """The answer to one request. HTTP/1.0, so that it ends where the connection does."""
    import socket

    scheme, _, rest = url.partition("://")
    place, _, prefix = rest.partition("/")
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    name = (host if colon else place).strip("[]")
    secure = scheme == "https"
    method, path = what.split(" ", 1)
    sent = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} {'/' + prefix.rstrip('/') if prefix else ''}{path} HTTP/1.0", f"Host: {place}"]
    head += [f"Content-Length: {len(sent)}", "Content-Type: application/json", "Accept: application/json"]
    head += [f"{header}: {value}" for header, value in headers.items()]
    with socket.create_connection((name, int(port) if colon else 443 if secure else 80), 10) as plain:
        connection = plain
        if secure:
            import ssl

            connection = ssl.create_default_context().wrap_socket(plain, server_hostname=name)
        connection.sendall("\r\n".join([*head, "", ""]).encode() + sent)
        parts, size = [], 0
        while (part := connection.recv(65_536)) and size <= _MOST_BYTES:
            parts.append(part)
            size += len(part)
    first, _, content = b"".join(parts).partition(b"\r\n\r\n")
    status = first.split(b"\r\n", 1)[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        raise ConnectionError(f"{path.partition('?')[0].rpartition('/')[2]} was answered with {status!r}")
    answer: dict = json.loads(content)  # type: ignore[type-arg]
    return answer


# --- remember ------------------------------------------------------------------------------------------------
def _hand_on(settings: dict, settings_file: str, said: dict) -> None:  # type: ignore[type-arg]
    """Leave it to a process of its own, which outlives this one."""
    import subprocess

    last = said.get("last_assistant_message")
    known = {
        "session": said.get("session_id") or said.get("conversation_id"),
        "transcript": said.get("transcript_path"),
        "project": project_of(said),
        "last": last[-200:] if isinstance(last, str) else None,
    }
    process = subprocess.Popen(  # noqa: S603 - this Python, and this package
        [settings["python"], "-m", "memory_agent.cli.hook_store", settings_file],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=os.path.dirname(settings_file),
    )
    with process.stdin as pipe:  # type: ignore[union-attr]
        pipe.write(json.dumps(known).encode())


if __name__ == "__main__":
    main(*sys.argv[1:3])
