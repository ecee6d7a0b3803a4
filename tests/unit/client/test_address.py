"""Where the service is: taken from arguments or settings, and shown without what is secret."""

import base64

import pytest

from memory_agent.client.connection import Address
from memory_agent.errors import ConfigError


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))
    for name in ("SERVICE_URL", "SERVICE_API_KEY", "CONFIG_FILE"):
        monkeypatch.delenv(f"MEMORY_AGENT_{name}", raising=False)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("https://memory.example.org/behind/a/proxy/", "https://memory.example.org/behind/a/proxy"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("HTTP://Example.org", "http://example.org"),
        ("https://ada:secret@example.org:444/x", "https://example.org:444/x"),
    ],
)
def test_address_ends_without_a_slash_and_holds_no_credentials(given: str, url: str) -> None:
    assert Address.of(given, None).url == url


@pytest.mark.parametrize(
    "given",
    [
        "", "example.org", "ftp://example.org", "http://", "http://h:x/", "http://h/?q=1", "http://ada:secret@h/?q=1",
        "http://h/#a", "http://\ud800", 7,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_what_to_pass_and_not_shown(given: str) -> None:
    with pytest.raises(ConfigError, match=r"base_url must be .* e\.g\. 'http://127\.0\.0\.1:8080'") as caught:
        Address.of(given, None)
    assert "secret" not in str(caught.value)


def test_without_any_address_the_error_names_argument_and_setting() -> None:
    with pytest.raises(
        ConfigError, match=r"pass base_url, .* or set service_url \(MEMORY_AGENT_SERVICE_URL\)"
    ):
        Address.of(None, None)


def test_settings_give_what_is_not_passed_and_the_key_is_in_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_AGENT_SERVICE_URL", "http://from.settings:1")
    monkeypatch.setenv("MEMORY_AGENT_SERVICE_API_KEY", "ma_from_settings")
    assert Address.of(None, None) == Address(
        url="http://from.settings:1", authorization="Bearer ma_from_settings"
    )
    passed = Address.of("http://passed:2", "ma_passed")
    assert passed == Address(url="http://passed:2", authorization="Bearer ma_passed")
    assert "ma_passed" not in repr(passed)


@pytest.mark.parametrize("key", ["", "ma secret", "ma_secret\n", "ma_sécret", "ma_secret\r\nX-Evil: 1", 5])
def test_impossible_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="api_key must be visible ASCII") as caught:
        Address.of("http://example.org", key)
    assert "secret" not in str(caught.value)


def test_credentials_of_a_gateway_become_basic_auth() -> None:
    found = Address.of("https://ada:p%40ss%3A@example.org", None).authorization
    assert found == "Basic " + base64.b64encode(b"ada:p@ss:").decode()


def test_key_and_credentials_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="only one of both") as caught:
        Address.of("https://ada:secret@example.org", "ma_key")
    assert "secret" not in str(caught.value)
    assert "ma_key" not in str(caught.value)
