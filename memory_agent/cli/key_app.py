"""The commands `memory-agent keys …`, with their options and help texts."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from memory_agent.cli.options import AsJson, Commands, DataDir
from memory_agent.cli.running import run, run_plain, settings
from memory_agent.clock import SystemClock
from memory_agent.domain import ALL_TENANTS

app = Commands(
    name="keys",
    no_args_is_help=True,
    help="""Make, list and revoke the API keys of a service.

A key is for the users of one tenant, for one of them, or for those of all tenants. Keys are kept with the document
store, embedded in a file of their own in data_dir; these commands work while a service runs.

**Start with**: memory-agent keys create --tenant acme
""",
)

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1)}
_EXPIRES_EXAMPLES = "write it like 90d, 12h, 2027-01-31 or 2027-01-31T18:00:00+01:00"


@app.command()
def create(
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Whose users the key is for (a-z, 0-9, _ and -).")
    ] = None,
    all_tenants: Annotated[
        bool,
        typer.Option(
            "--all-tenants",
            help="Instead: everybody's, and to look after the service (status of all, retry, worker, sweep).",
        ),
    ] = False,
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="This user alone.", show_default="all of the tenant's")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="It may change nothing.")] = False,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            help="From when on it is refused: in so many days or hours (90d, 12h), a day (from 0:00 UTC on), or a time"
            " with its zone.",
            show_default="never",
        ),
    ] = None,
    label: Annotated[str, typer.Option("--label", help="What people know it by.")] = "",
    requests_per_minute: Annotated[
        int | None,
        typer.Option(
            "--requests-per-minute", min=1, help="Its own limit.", show_default="the service's setting"
        ),
    ] = None,
    max_body_bytes: Annotated[
        int | None,
        typer.Option("--max-body-bytes", min=1, help="Its own limit.", show_default="the service's setting"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write the token into this new file, which only you can read, instead of printing it.",
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a key, and print its token, or write it into a file with --out: now and never again.

    The token alone goes to standard output. What is stored of it proves that somebody has it, but cannot be turned
    back into it: keep it at once where secrets are kept.

    **Examples**

        memory-agent keys create --tenant acme --label "web shop" --expires 90d

        memory-agent keys create --tenant acme --user ada --read-only --out ada.token

        memory-agent keys create --all-tenants --label operator --out operator.token
    """
    if (tenant is None) == (not all_tenants):
        raise typer.BadParameter("give either --tenant or --all-tenants")
    if all_tenants and user is not None:
        raise typer.BadParameter("--user is of one tenant: give that with --tenant")
    now = SystemClock().now()
    expires_at = None if expires is None else expiry(expires, now)
    from memory_agent.cli import keys
    from memory_agent.keys import new_key

    async def make() -> int:
        key, token = new_key(
            ALL_TENANTS if tenant is None else tenant,
            user_id=user,
            read_only=read_only,
            label=label,
            expires_at=expires_at,
            requests_per_minute=requests_per_minute,
            max_body_bytes=max_body_bytes,
            now=now,
        )
        return await keys.create(settings(data_dir), key, token, out=out, as_json=as_json)

    run(make())


@app.command("list")
def list_(
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Keys of this tenant only.", show_default="all")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the keys, oldest first, expired and revoked ones too. Secrets are not among what is known of them.

    **Examples**

        memory-agent keys list --tenant acme

        memory-agent keys list --json | jq -r '.[] | select(.state == "valid") | .id'
    """
    from memory_agent.cli import keys

    run(keys.show_all(data_dir, tenant, as_json=as_json))


@app.command()
def revoke(
    key_id: Annotated[
        str, typer.Argument(help="Id of a key, as `keys list` shows it; its token will do as well.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key for good: whoever uses it is refused.

    It cannot be undone; make another key instead. One that is revoked already stays as it is.

    **Examples**

        memory-agent keys revoke k3v5m2a7qd4xnb6t

        memory-agent keys revoke k3v5m2a7qd4xnb6t --yes
    """
    from memory_agent.cli import keys

    run_plain(lambda: keys.revoke(data_dir, key_id, yes=yes, as_json=as_json))


def expiry(text: str, now: datetime) -> datetime:
    """The time that --expires names: so many days or hours after `now`, the beginning of a day in UTC, or a time.

    Raises BadParameter.
    """
    try:
        if after := re.fullmatch(r"([0-9]{1,9})([hd])", text):
            return now + int(after[1]) * _UNITS[after[2]]
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text} is no time to come; {_EXPIRES_EXAMPLES}", param_hint="--expires"
        ) from None
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return time.replace(tzinfo=UTC)
    if time.utcoffset() is None:
        raise typer.BadParameter(f"{text} has no time zone; {_EXPIRES_EXAMPLES}", param_hint="--expires")
    return time
