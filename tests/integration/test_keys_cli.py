"""API keys on the command line: made, listed and revoked, also while a service holds the folder, and on MongoDB."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys
from memory_agent.cli.keys import expiry
from memory_agent.keys import matches, new_key, read_token, why_invalid
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.stores.sqlite.meta import SqliteKeys
from tests.integration.commands import CommandLine, Quick, one_line

NOW = datetime(2027, 1, 31, 18, 30, tzinfo=UTC)
KEY_FIELDS: Final = (
    "id tenant user read_only label state created_at expires_at revoked_at requests_per_minute max_body_bytes"
)
HOSTILE = '\'; DROP TABLE "api_keys"; $where [bold]é\u202e[/bold] 海'


ACME: Final = ("keys", "create", "--tenant", "acme")


# --- into a file ---------------------------------------------------------------------------------------------
def test_token_goes_into_a_new_file_that_only_its_owner_can_read(quick: Quick, tmp_path: Path) -> None:
    """And nowhere else; whatever the umask is."""
    before = os.umask(0)
    try:
        made = quick(*ACME, "--out", str(tmp_path / "key.txt"))
    finally:
        os.umask(before)
    file = tmp_path / "key.txt"
    token = file.read_text().strip()
    assert read_token(token) is not None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made.stdout == ""
    assert token not in made.stderr
    assert "key.txt, which only you can read" in made.stderr
    told = quick.json(*ACME, "--out", str(tmp_path / "other.txt"))
    assert [*told] == ["file", *KEY_FIELDS.split()]
    assert len(quick.json("keys", "list")) == 2


def test_file_that_is_there_or_cannot_be_made_costs_no_key(quick: Quick, tmp_path: Path) -> None:
    """And a key that cannot be stored leaves no file and is not shown."""
    quick(*ACME)
    file = tmp_path / "key.txt"
    file.write_text("another key")
    assert "key.txt is there already" in quick(*ACME, "--out", str(file), code=1).stderr
    assert file.read_text() == "another key"
    assert "cannot be written" in quick(*ACME, "--out", str(tmp_path / "no" / "key.txt"), code=1).stderr
    assert len(quick.json("keys", "list")) == 1
    (quick.data / "keys.sqlite3").write_text("no database, and more than a header's worth of text" * 9)
    file.unlink()
    quick(*ACME, "--out", str(file), code=1)
    assert not file.exists()
    assert quick(*ACME, code=1).stdout == ""


# --- as processes --------------------------------------------------------------------------------------------
def test_key_is_made_listed_and_revoked(cli: CommandLine) -> None:
    """Standard output of `create` is the token alone; from its revocation on, the key is listed as revoked."""
    made = cli(*ACME, "--label", "Web shop", "--expires", "90d")
    token = made.stdout.strip()
    parsed = read_token(token)
    assert parsed is not None
    assert made.stdout == f"{token}\n"
    assert "only now" in made.stderr
    assert token not in made.stderr
    key_id, secret = parsed

    [listed] = cli.json("keys", "list")
    assert [*listed] == KEY_FIELDS.split()
    said = {"id": key_id, "tenant": "acme", "label": "Web shop", "state": "valid"}
    assert {name: listed[name] for name in said} == said
    lifetime = datetime.fromisoformat(listed["expires_at"]) - datetime.fromisoformat(listed["created_at"])
    assert lifetime == timedelta(days=90)

    assert "revoked" in cli("keys", "revoke", key_id, "--yes").stderr
    shown = cli("keys", "list")
    assert "revoked" in shown.stdout
    assert key_id in shown.stdout
    assert secret not in shown.stdout + shown.stderr


async def test_keys_are_managed_while_a_service_holds_the_folder(
    cli: CommandLine, embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder
) -> None:
    """A service that runs finds a key as soon as the command returned, and knows at once that it was revoked."""
    cli.data = embedded_settings["data_dir"]
    cfg = MemoryConfig(**embedded_settings)
    async with MemoryService(cfg, embedder=shared_embedder), AsyncExitStack() as stack:
        await asyncio.to_thread(cli, "status")  # which the service answers
        keys = await open_keys(cfg, None, stack)
        assert list(await keys.list()) == []
        made = await asyncio.to_thread(cli, *ACME)
        parsed = read_token(made.stdout.strip())
        assert parsed is not None
        key = await keys.find(parsed[0])
        assert key is not None
        assert matches(key, parsed[1])
        assert why_invalid(key, datetime.now(UTC)) is None
        [listed] = await asyncio.to_thread(cli.json, "keys", "list")
        assert listed["id"] == key.id
        await asyncio.to_thread(cli, "keys", "revoke", key.id, "--yes")
        revoked = await keys.find(key.id)
        assert revoked is not None
        assert "was revoked" in (why_invalid(revoked, datetime.now(UTC)) or "")


def test_a_key_for_all_tenants_is_made_and_shown_as_one(quick: Quick) -> None:
    """It takes no user, and exactly one of --tenant and --all-tenants is needed."""
    made = quick("keys", "create", "--all-tenants", "--label", "operator")
    assert "(all tenants, 'operator')" in made.stderr
    assert "operator" in quick("keys", "list").stdout
    (shown,) = quick.json("keys", "list")
    assert (shown["tenant"], shown["user"]) == ("*", None)
    for wrong in ([], ["--tenant", "acme", "--all-tenants"], ["--all-tenants", "--user", "ada"]):
        quick("keys", "create", *wrong, code=2)
    one_line(quick("keys", "create", "--tenant", "*", "--user", "ada", code=1).stderr, "for no single user")


# --- what is made --------------------------------------------------------------------------------------------


def test_impossible_key_is_refused_in_one_line(quick: Quick) -> None:
    """And no file is made for it."""
    impossible: list[tuple[list[str], str]] = [
        (["--tenant", "Acme"], "tenant is 'Acme'"),
        (["--tenant", "a\x1fb"], "tenant is"),
        (["--tenant", "acme", "--user", ""], "user_id is empty"),
        (["--tenant", "acme", "--user", "a\x1fb"], "user_id has the control character"),
        (["--tenant", "acme", "--expires", "2020-01-31"], "is past"),
        (["--tenant", "acme", "--expires", "0d"], "is past"),
        (["--tenant", "acme", "--max-body-bytes", str(10**15)], "max_body_bytes is 1000000000000000"),
    ]
    for arguments, message in impossible:
        failed = quick("keys", "create", *arguments, code=1)
        assert failed.stdout == ""
        one_line(failed.stderr, message)
    for name in ("keys", "KEYS"):  # the documents of such a db_name would lie in the same file
        one_line(quick(*ACME, code=1, MEMORY_AGENT_DB_NAME=name).stderr, f"db_name: '{name}'")
    assert not quick.data.exists()


def test_expiry_is_a_span_a_day_or_a_time() -> None:
    """What could be meant in two ways, or reaches past the last year, is wrong usage; it is shown how to write it."""
    times = {"90d": NOW + timedelta(days=90), "12h": NOW + timedelta(hours=12)}
    times["2027-02-28"] = datetime(2027, 2, 28, tzinfo=UTC)
    times["2027-02-28T18:00:00+01:00"] = datetime(2027, 2, 28, 17, tzinfo=UTC)
    times["2027-02-28T18:00Z"] = datetime(2027, 2, 28, 18, tzinfo=UTC)
    assert {text: expiry(text, NOW) for text in times} == times
    wrong = ["", "90", "d", "-5d", "1.5d", "90 d", "3w", "٣d", "999999999d", "tomorrow", "2027-02-30"]
    for text in (*wrong, "2027-02-28T18:00"):
        with pytest.raises(typer.BadParameter, match="90d, 12h, 2027-01-31 or"):
            expiry(text, NOW)


# --- listing -------------------------------------------------------------------------------------------------
async def test_states_are_told_apart(quick: Quick) -> None:
    """Valid, expired and revoked keys are all listed, oldest first, with since when or until when."""
    keys = SqliteKeys(quick.data / "keys.sqlite3")
    await keys.open()
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    made = {
        "expired": new_key("acme", expires_at=long_ago + timedelta(days=1), now=long_ago),
        "revoked": new_key("other", now=long_ago + timedelta(hours=1)),
        "valid": new_key("acme", label=HOSTILE, now=long_ago + timedelta(hours=2)),
    }
    for key, _ in made.values():
        await keys.put(key)
    await keys.revoke(made["revoked"][0].id, long_ago + timedelta(days=3))
    await keys.close()

    listed = await asyncio.to_thread(quick.json, "keys", "list")
    assert [(key["id"], key["state"]) for key in listed] == [(made[state][0].id, state) for state in made]
    of_acme = await asyncio.to_thread(quick.json, "keys", "list", "--tenant", "acme")
    assert of_acme == [listed[0], listed[2]]
    shown = (await asyncio.to_thread(quick, "keys", "list")).stdout
    for words in ("expired 2026-01-02 00:00", "revoked 2026-01-04 00:00", "valid", "[bold]é\ufffd[/bold] 海"):
        assert words in shown
    nobody = await asyncio.to_thread(quick, "keys", "list", "--tenant", "nobody")
    assert nobody.stdout == ""
    assert "no API keys of tenant 'nobody'" in nobody.stderr


# --- revoking ------------------------------------------------------------------------------------------------
def test_revoking_asks_and_says_that_it_is_for_good(quick: Quick) -> None:
    """The question names the key; without a yes it stays valid. Again it asks nothing, and changes nothing."""
    quick("facts", "set", "name", "Ada")
    assert "no API keys" in quick("keys", "list").stderr
    assert quick.json("keys", "list") == []
    key_id = quick.json(*ACME, "--label", "Web shop")["id"]
    for answer in ("n\n", "\n", ""):
        refused = quick("keys", "revoke", key_id, stdin=answer, code=1)
        for words in (key_id, "'acme'", "'Web shop'", "cannot be undone"):
            assert words in refused.stderr
        assert quick.json("keys", "list")[0]["state"] == "valid"
    quick("keys", "revoke", key_id, stdin="y\n")
    (revoked,) = quick.json("keys", "list")
    assert revoked["state"] == "revoked"
    assert "already" in quick("keys", "revoke", key_id).stderr
    assert quick.json("keys", "revoke", key_id) == revoked


def test_unknown_key_leaves_with_1(quick: Quick) -> None:
    """Without a question, in one line that repeats nothing that may be a secret."""
    other = quick.json(*ACME)["id"]
    unknown, none = f"there is no API key {'a' * 16};", "that is no id of an API key"
    messages = {
        "a" * 16: f"{unknown} `memory-agent keys list --data-dir ",
        f"ma_{'a' * 16}_{'b' * 52}": unknown,
    }
    messages |= dict.fromkeys(("b" * 52, "' OR 1=1 --", "$ne", "\udcff"), none)
    for key_id, message in messages.items():
        failed = quick("keys", "revoke", key_id, code=1)
        assert failed.stderr.startswith(f"memory-agent: {message}")
        assert failed.stderr.count("\n") == 1
        assert "b" * 52 not in failed.stderr
    assert [(key["id"], key["state"]) for key in quick.json("keys", "list")] == [(other, "valid")]
