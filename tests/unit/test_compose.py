"""docker-compose.yml and .env.example: valid, safe to start on a laptop, and their scripts do what they are for."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main
import yaml

from memory_agent.cli.app import app
from memory_agent.config import MemoryConfig

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, Any] = COMPOSE["services"]
SERVERS = {name: service for name, service in SERVICES.items() if "build" not in service}
SETTINGS = SERVICES["settings"]
PROXY = SERVICES["proxy"]
NGINX_CONF = (ROOT / "config" / "nginx.conf").read_text(encoding="utf-8")
OURS = {name: service for name, service in SERVICES.items() if "build" in service and service is not SETTINGS}

VARIABLE = re.compile(r"(?<!\$)\$\{([A-Z0-9_]+)(?::-([^}]*))?\}")
LONG = 240.0


def resolved(text: str, values: dict[str, str] | None = None) -> str:
    """What Compose makes of a text: variables replaced, and `$$` by `$`."""
    given = values or {}
    filled = VARIABLE.sub(lambda match: given.get(match[1]) or match[2] or "", text)
    return filled.replace("$$", "$")


def example_values() -> dict[str, str]:
    lines = [line for line in EXAMPLE.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


# --- the file as such ----------------------------------------------------------------------------------------
def test_file_is_valid_by_the_compose_specification() -> None:
    schema = json.loads((ROOT / "tests" / "schemas" / "compose-spec.json").read_text(encoding="utf-8"))
    jsonschema.validate(COMPOSE, schema)


def test_services_are_pulled_at_a_patch_release_or_built_here_as_one_image_of_this_version() -> None:
    assert (set(SERVERS), set(OURS)) == ({"mongo", "chroma", "proxy"}, {"api", "worker", "cleanup"})
    assert all(
        re.fullmatch(r"[a-z/-]+:\d+\.\d+\.\d+(-alpine)?", service["image"]) for service in SERVERS.values()
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for service in (*OURS.values(), SETTINGS):
        assert service["image"] == f"{project['name']}:{project['version']}"
        assert service["build"] == SETTINGS["build"]
    assert SETTINGS["build"]["context"] == "."
    for argument in SETTINGS["build"]["args"]:
        assert re.search(rf"^ARG {argument}\b", DOCKERFILE, flags=re.MULTILINE)


def test_servers_and_the_proxy_are_published_on_the_loopback_interface_and_nothing_else() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if service.get("ports")}
    assert set(published) == {"mongo", "chroma", "proxy"}
    for port in chain.from_iterable(published.values()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", resolved(port))
    assert SERVICES["api"]["command"] == ["serve", "--host", "0.0.0.0"]


def test_ours_wait_for_healthy_servers_and_for_the_settings() -> None:
    needed: dict[str, Any] = {server: {"condition": "service_healthy"} for server in ("mongo", "chroma")}
    needed["settings"] = {"condition": "service_completed_successfully"}
    assert [service["depends_on"] for service in OURS.values()] == [needed] * len(OURS)


def test_containers_of_ours_can_do_and_take_little() -> None:
    for service in OURS.values():
        assert (service["init"], service["read_only"], service["tmpfs"]) == (True, True, "/tmp")
        assert service["cap_drop"] == ["ALL"]
        assert service["pids_limit"] > 0
        assert service["deploy"]["resources"]["limits"]["memory"]
    for server in ("mongo", "chroma"):
        assert COMPOSE["services"][server]["deploy"]["resources"]["limits"]["memory"]
    assert (PROXY["read_only"], PROXY["tmpfs"], PROXY["cap_drop"]) == (True, "/tmp", ["ALL"])
    assert (SETTINGS["cap_drop"], SETTINGS["cap_add"]) == (["ALL"], ["DAC_READ_SEARCH"])
    assert (SETTINGS["read_only"], SETTINGS["network_mode"]) == (True, "none")
    for service in (*OURS.values(), SETTINGS, PROXY):
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged"} & set(service)


# --- the settings' copy --------------------------------------------------------------------------------------
def copy_settings(source: Path, target: Path) -> None:
    script = resolved(SETTINGS["command"][0])
    subprocess.run(
        [*SETTINGS["entrypoint"], script],
        env={"PATH": os.environ["PATH"], "SETTINGS_FROM": str(source), "SETTINGS_TO": str(target)},
        check=True,
        timeout=LONG,
        umask=0o077,
    )


def test_settings_that_a_strict_umask_kept_private_can_be_read_by_all(tmp_path: Path) -> None:
    """Whoever checked out with umask 077 has a folder and files that no other user may read; the copy is for all."""
    source, target = tmp_path / "config", tmp_path / "volume"
    shutil.copytree(ROOT / "config", source)
    (source / "more").mkdir()
    (source / "more" / "names.yaml").write_text("a: 1")
    for place in (source, *source.rglob("*")):
        place.chmod(0o700 if place.is_dir() else 0o600)
    target.mkdir(mode=0o755)
    (target / "old.toml").write_text("left from before")
    copy_settings(source, target)
    copy_settings(source, target)
    copied = {place.relative_to(target): place for place in target.rglob("*")}
    assert set(copied) == {place.relative_to(source) for place in source.rglob("*")}
    for place in (target, *copied.values()):
        assert stat.S_IMODE(place.stat().st_mode) == (0o755 if place.is_dir() else 0o644), place
    assert (target / "memory.toml").read_bytes() == (ROOT / "config" / "memory.toml").read_bytes()


def test_the_copy_is_where_the_image_looks() -> None:
    source, target = (SETTINGS["environment"][name] for name in ("SETTINGS_FROM", "SETTINGS_TO"))
    assert SETTINGS["volumes"] == [f"./config:{source}:ro", f"agent_settings:{target}"]
    assert all(f"agent_settings:{target}:ro" in service["volumes"] for service in OURS.values())
    assert re.search(rf"^WORKDIR {Path(target).parent}$", DOCKERFILE, flags=re.MULTILINE)


# --- variables and settings ----------------------------------------------------------------------------------
def test_every_variable_has_a_default_and_is_in_the_example_with_it() -> None:
    assert dict(VARIABLE.findall(TEXT)) == example_values()
    assert all(":-" in match[0] for match in VARIABLE.finditer(TEXT))
    assert "$" not in VARIABLE.sub("", TEXT).replace("$$", "")


@pytest.mark.parametrize("file", ["docker-compose.yml", ".env.example", "Dockerfile"])
def test_only_settings_that_exist_are_named(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    named = {name.lower() for name in re.findall(r"\bMEMORY_AGENT_([A-Z][A-Z0-9_]*)\b", text)}
    assert named
    assert named <= set(MemoryConfig.model_fields)


@pytest.mark.parametrize("file", ["docker-compose.yml", ".env.example"])
def test_no_secret_stands_in_the_file(file: str) -> None:
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        match = re.match(r"\s*([A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD)[A-Z0-9_]*)\s*[:=]\s*(.*)$", line)
        if match:
            assert match[2] in ("", f"${{{match[1]}:-}}")
    assert not re.search(r"://[^\s/:@]+:[^\s/@]+@", TEXT + EXAMPLE)


@pytest.mark.parametrize("key", ["", "sk-test"], ids=["as it is", "with a key"])
def test_settings_are_accepted_and_nothing_is_embedded(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where config/memory.toml is, which the containers mount
    values = {**example_values(), "MEMORY_AGENT_OPENAI_API_KEY": key}
    for service in OURS.values():
        for name in [name for name in os.environ if name.startswith("MEMORY_AGENT_")]:
            monkeypatch.delenv(name)
        for name, value in service["environment"].items():
            monkeypatch.setenv(name, resolved(value, values))
        cfg = MemoryConfig()
        assert (cfg.embedded, cfg.run_worker, cfg.llm_configured) == (False, False, bool(key))


# --- commands ------------------------------------------------------------------------------------------------
def parsed(words: list[str]) -> None:
    """Read the words as the command line would, without running anything. Fails for what it doesn't know."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("memory-agent", list(words))
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def commands_in(text: str) -> list[list[str]]:
    """Calls of memory-agent in a shell text, without what a shell does before and after them."""
    found = []
    for call in re.findall(r"^.*?\bmemory-agent ((?:[a-z]).*)$", text, flags=re.MULTILINE):
        plain = re.split(r" [&|#]|[|;>`]", call, maxsplit=1)[0]
        found.append([word for word in shlex.split(plain) if word != "&"])
    return found


def test_commands_of_the_containers_and_of_the_operations_page_exist() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:sh|ini)\n(.*?)```", page, flags=re.DOTALL)
    calls = [words for block in blocks for words in commands_in(block)]
    for service in OURS.values():
        is_shell = "entrypoint" in service
        found = commands_in(resolved(service["command"][0])) if is_shell else [service["command"]]
        assert found
        calls += found
    for words in calls:
        parsed(words)


# --- the servers ---------------------------------------------------------------------------------------------
def test_chroma_server_is_of_the_client_s_series_and_sends_no_telemetry() -> None:
    chroma = SERVICES["chroma"]
    assert chroma["image"].split(":")[1].split(".")[:2] == version("chromadb").split(".")[:2]
    assert chroma["environment"]["ANONYMIZED_TELEMETRY"] == "FALSE"


# --- health checks -------------------------------------------------------------------------------------------
@contextlib.contextmanager
def answering(status: int, path: str) -> Iterator[int]:
    """A server that answers `status` to GET of `path`, 404 to all else; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == path else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def run_check(test: list[str], *, port: int | None, **environment: str) -> int:
    """Exit code of a health check in Python; `port`: what it is told that the API listens on."""
    assert test[:2] == ["python", "-c"]
    given = {} if port is None else {"MEMORY_AGENT_SERVER_PORT": str(port)}
    finished = subprocess.run(
        [sys.executable, *test[1:]],
        env={**os.environ, **given, **environment},
        capture_output=True,
        timeout=LONG,
        check=False,
    )
    return finished.returncode


def chroma_check(port: int) -> int:
    command = SERVICES["chroma"]["healthcheck"]["test"][1:]
    script = resolved(command[-1]).replace("/8000", f"/{port}")  # the port inside the container
    return subprocess.run([*command[:-1], script], capture_output=True, timeout=LONG, check=False).returncode


def api_check(port: int, **environment: str) -> int:
    _, program, option, script = SERVICES["api"]["healthcheck"]["test"]
    return run_check([program, option, resolved(script)], port=port, **environment)


def image_check(port: int, **environment: str) -> int:
    instruction = re.search(r"^HEALTHCHECK .*?CMD (\[.*?\])$", DOCKERFILE, flags=re.MULTILINE | re.DOTALL)
    assert instruction
    return run_check(json.loads(instruction[1].replace("\\\n", "")), port=port, **environment)


CHECKS = {"/api/v2/heartbeat": chroma_check, "/readyz": api_check, "/healthz": image_check}


@pytest.mark.parametrize("path", CHECKS)
def test_a_health_check_follows_the_answer_and_asks_no_proxy(path: str) -> None:
    for status, healthy in ((200, True), (503, False), (404, False)):
        with answering(status, path) as port:
            assert (CHECKS[path](port) == 0) is healthy, status
    assert CHECKS[path](1) != 0, "nothing listens"
    if path != "/api/v2/heartbeat":
        nowhere = {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1", "no_proxy": ""}
        with answering(200, path) as port:
            assert CHECKS[path](port, **nowhere) == 0


WAKES = "import time\nprint(flush=True)\nwhile True: time.sleep(0.2)"
HANGS = "import threading\nprint(flush=True)\nthreading.Event().wait()"


def test_worker_health_check_tells_a_worker_that_wakes_from_one_that_hangs_or_is_gone(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        for program in (WAKES, HANGS, "")
    ]
    try:
        for worker in workers:  # past their start, during which everything wakes up
            assert worker.stdout is not None
            worker.stdout.readline()
            worker.stdout.close()
        workers[-1].wait()
        assert [run_worker_check(worker.pid, tmp_path) == 0 for worker in workers] == [True, False, False]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def run_worker_check(pid: int, folder: Path) -> int:
    """Exit code of the check, with `pid` as the child of process 1, and four seconds in which to wake up."""
    children = folder / "children"
    children.write_text(f"{pid} \n")
    script = resolved(SERVICES["worker"]["healthcheck"]["test"][3])
    changed = script.replace("/proc/1/task/1/children", str(children)).replace("range(15)", "range(4)")
    assert str(children) in changed
    assert "range(4)" in changed
    return run_check(["python", "-c", changed], port=None)


# --- the proxy -----------------------------------------------------------------------------------------------
def directives(text: str) -> list[list[str]]:
    """The directives of an nginx configuration, blocks too, each as its words; raises ValueError for an odd brace."""
    found: list[list[str]] = []
    words: list[str] = []
    depth = 0
    for quoted, plain in re.findall(r"""("[^"]*"|'[^']*')|([{};]|#.*|[^\s{};"']+)""", text):
        if plain.startswith("#"):
            continue
        if plain not in ("{", "}", ";"):
            words.append(quoted[1:-1] if quoted else plain)
            continue
        depth += {"{": 1, "}": -1, ";": 0}[plain]
        if bool(words) is (plain == "}") or depth < 0:
            raise ValueError(f"{plain} after {words}")
        found += [words] if words else []
        words = []
    if depth or words:
        raise ValueError(f"{depth} blocks stay open, and {words}")
    return found


def test_the_proxy_s_settings_hold_the_limits_that_the_operations_page_tells_of() -> None:
    """They are what keeps slow and greedy clients from costing others a wait."""
    found = directives(NGINX_CONF)
    given = {words[0]: words[1:] for words in found}
    assert (
        int(given["client_max_body_size"][0].removesuffix("m")) * 2**20
        >= MemoryConfig().server_max_body_bytes
    )
    limits = [words[1:] for words in found if words[0] == "limit_conn"]
    assert limits == [["requests", "512"], ["large_bodies", "4"]]
    for limit in ("client_header_timeout", "client_body_timeout", "send_timeout", "worker_connections"):
        assert limit in given
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert f"connections | {int(given['worker_connections'][0]):,} for each of four processes" in page
    # Not as many as the host has cores: 64 of them were more than the container's memory and its limit of processes.
    assert given["worker_processes"] == ["4"]
    assert "proxy_request_buffering" not in given, "on by itself: bodies are taken in full first"


def test_the_proxy_passes_requests_on_as_they_came_to_where_the_api_listens() -> None:
    found = directives(NGINX_CONF)
    port = SERVICES["api"]["environment"]["MEMORY_AGENT_SERVER_PORT"]
    assert [words for words in found if words[0] == "set"] == [["set", "$service", f"http://api:{port}"]]
    assert [words for words in found if words[0] == "proxy_pass"] == [["proxy_pass", "$service"]] * 2
    headers = {words[1]: words[2] for words in found if words[0] == "proxy_set_header"}
    assert headers == {
        "Host": "$http_host",
        "Upgrade": "$upgrade",  # a WebSocket's alone: behind another one bodies are lost
        "Connection": "$connection_upgrade",
        "X-Forwarded-For": "$remote_addr",
        "X-Forwarded-Proto": "$client_scheme",
    }
    assert SERVICES["api"]["environment"]["MEMORY_AGENT_SERVER_TRUSTED_PROXIES"]


def test_the_proxy_reads_its_settings_from_the_copy_and_writes_to_its_volume_and_tmp_alone() -> None:
    mounts = dict(volume.split(":")[:2] for volume in PROXY["volumes"])
    assert PROXY["command"][2] == f"{mounts['agent_settings']}/nginx.conf"
    written = (mounts["proxy_bodies"], PROXY["tmpfs"])
    for name, path, *_ in (words for words in directives(NGINX_CONF) if len(words) > 1):
        if name.endswith("_temp_path") or name == "pid":
            assert path.startswith(tuple(f"{folder}/" for folder in written)), name
    assert (
        SERVICES["proxy"]["ports"][0].rsplit(":", 1)[1]
        == dict(words[:2] for words in directives(NGINX_CONF) if words[0] == "listen")["listen"]
    )


# --- the sweep's loop ----------------------------------------------------------------------------------------

FAKE = """#!/bin/sh
trap 'echo stopped >> "{log}"; exit 130' TERM
echo "$*" >> "{log}"
while [ -e "{slow}" ]; do sleep 0.05; done
exit {code}
"""


class Loop:
    """The cleanup service's shell text with a memory-agent that only notes how it was called."""

    def __init__(self, folder: Path, *, code: int = 0, slow: bool = False, every: str, retry: str) -> None:
        self.log = folder / "log"
        self.log.touch()
        marker = folder / "slow"
        if slow:
            marker.touch()
        fake = folder / "memory-agent"
        fake.write_text(FAKE.format(log=self.log, slow=marker, code=code))
        fake.chmod(0o755)
        service = SERVICES["cleanup"]
        self.process = subprocess.Popen(
            [*service["entrypoint"], *(resolved(part) for part in service["command"])],
            env={
                "PATH": f"{folder}:{os.environ['PATH']}",
                "SWEEP_EVERY_SECONDS": every,
                "SWEEP_RETRY_SECONDS": retry,
            },
            start_new_session=True,
        )

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()

    def wait_for(self, met: Callable[[list[str]], bool]) -> list[str]:
        until = time.monotonic() + LONG
        while not met(self.calls()):
            assert time.monotonic() < until, self.calls()
            assert self.process.poll() is None
            time.sleep(0.02)
        return self.calls()

    def stop(self) -> None:
        """SIGTERM, to the shell alone as Docker's init sends it, which ends it long before its next sweep."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=LONG) == 0

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Callable[..., Loop]]:
    started: list[Loop] = []

    def start(**options: Any) -> Loop:
        started.append(Loop(tmp_path, **options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.mark.parametrize("code", [0, 1, 3, 4])
def test_the_sweep_is_repeated_and_sooner_if_it_was_not_whole(loop: Callable[..., Loop], code: int) -> None:
    soon, late = "0.05", "300"
    running = loop(code=code, every=late if code else soon, retry=soon if code else late)
    assert set(running.wait_for(lambda calls: len(calls) >= 3)) == {"sweep --quiet"}
    running.stop()


def test_the_loop_lets_a_sweep_that_runs_leave_in_order(loop: Callable[..., Loop]) -> None:
    running = loop(slow=True, every="300", retry="300")
    running.wait_for(lambda calls: len(calls) == 1)
    time.sleep(0.3)
    running.stop()
    assert running.calls() == ["sweep --quiet", "stopped"]
