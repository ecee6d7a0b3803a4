"""docker-compose.yml: valid by the Compose Specification, and safe to start on a laptop."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def test_file_is_valid_by_the_compose_specification() -> None:
    schema = json.loads((ROOT / "tests" / "schemas" / "compose-spec.json").read_text(encoding="utf-8"))
    # The copy of the schema is older than the top-level `name`, which every current Compose knows.
    without_name = {key: value for key, value in COMPOSE.items() if key != "name"}
    assert list(jsonschema.Draft7Validator(schema).iter_errors(without_name)) == []


def test_validation_would_notice_a_mistake() -> None:
    schema = json.loads((ROOT / "tests" / "schemas" / "compose-spec.json").read_text(encoding="utf-8"))
    assert not jsonschema.Draft7Validator(schema).is_valid(
        {"services": {"mongo": {"imagge": "mongo:8.0.28"}}}
    )


@each_service
def test_images_are_pinned_to_a_patch_release(service: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+", service["image"])


@each_service
def test_ports_are_published_on_the_loopback_interface_only(service: dict[str, Any]) -> None:
    assert service["ports"]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in service["ports"])


@each_service
def test_each_server_has_a_health_check(service: dict[str, Any]) -> None:
    assert {"test", "interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"])


@each_service
def test_data_is_kept_in_named_volumes(service: dict[str, Any]) -> None:
    names = {mount.split(":")[0] for mount in service["volumes"]}
    assert names
    assert names <= set(COMPOSE["volumes"])


def test_mongo_is_a_replica_set_that_initiates_itself() -> None:
    mongo = SERVICES["mongo"]
    assert mongo["command"][1:3] == ["--replSet", "rs0"]
    script = mongo["healthcheck"]["test"][-1]
    assert 'rs.initiate({ _id: "rs0"' in script
    assert f'host: "{mongo["hostname"]}:27017"' in script


def test_chroma_server_is_of_the_client_s_series_and_sends_no_telemetry() -> None:
    chroma = SERVICES["chroma"]
    tag = chroma["image"].split(":")[1]
    assert tag.split(".")[:2] == version("chromadb").split(".")[:2]
    assert chroma["environment"]["ANONYMIZED_TELEMETRY"] == "FALSE"


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_chroma_health_check_follows_the_heartbeat(status: int, healthy: bool) -> None:
    class Heartbeat(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/api/v2/heartbeat" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
            pass

    with HTTPServer(("127.0.0.1", 0), Heartbeat) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = SERVICES["chroma"]["healthcheck"]["test"][1:]
        # Compose turns $$ into $ and the port inside the container is 8000.
        script = command[-1].replace("$$", "$").replace("/8000", f"/{server.server_port}")
        finished = subprocess.run([*command[:-1], script], capture_output=True, timeout=20, check=False)
        server.shutdown()
    assert (finished.returncode == 0) is healthy


def test_chroma_health_check_fails_while_nothing_listens() -> None:
    command = SERVICES["chroma"]["healthcheck"]["test"][1:]
    script = command[-1].replace("$$", "$").replace("/8000", "/1")
    assert subprocess.run([*command[:-1], script], capture_output=True, timeout=20, check=False).returncode
