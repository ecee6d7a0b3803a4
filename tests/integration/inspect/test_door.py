"""The way to the pages: keys, logins, forms, and who is refused."""

from __future__ import annotations

import base64
import contextlib
import html
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.domain import ALL_TENANTS
from memory_agent.inspect.door import IDLE_SECONDS, LONGEST_SECONDS, TICKET_SECONDS, Logins
from memory_agent.inspect.routes import ROUTES
from memory_agent.keys import read_token
from tests.integration.inspect.looking import ANN, HOME, Looker, looking, tell_of_walnuts, text_of


@pytest.fixture
async def looker(tmp_path: Path) -> AsyncIterator[Looker]:
    """At a memory of the user ann, with keys that are believed no longer than they must."""
    async with looking({"data_dir": tmp_path}, server_key_cache_seconds=0.0) as found:
        await tell_of_walnuts(found.service)
        yield found


OPEN = {"/inspect", "/inspect/sign-in", "/inspect/enter", "/inspect/static/{name}"}
NAMES = {"tenant": "default", "user": "ann", "thread": "home", "seq": "1", "name": "x", "topic": "x"}
METHODS = [
    (path.removeprefix("/inspect/").format(**NAMES), methods)
    for path, _, methods in ROUTES
    if path not in OPEN
]
CHANGES = [path for path, methods in METHODS if methods == ("POST",) and path.startswith("of/")]


async def test_who_is_not_signed_in_sees_nothing_of_any_page_and_changes_nothing(looker: Looker) -> None:
    for path, methods in METHODS:
        answer = await looker.http.request(methods[0], path)
        assert answer.status_code in (303, 401), path
        assert "walnut" not in answer.text
    assert (await looker.service.users()).users[0].turns == 8
    # The files of the pages are anybody's, and no others are.
    style = await looker.http.get("static/inspect.css")
    assert (style.status_code, style.headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert "font" in style.text
    assert (await looker.http.get("static/%2e%2e%2fdoor.py")).status_code == 404
    # A link from another site comes back with the cookie.
    page = (await looker.http.get(ANN, headers={"Sec-Fetch-Site": "cross-site"})).text
    assert '<meta http-equiv="refresh" content="0">' in page
    assert "ann" not in text_of(page)


async def test_a_key_begins_a_session_whose_cookie_no_script_and_no_other_site_gets(looker: Looker) -> None:
    token = await looker.server.key()
    answer = await looker.http.post("sign-in", data={"key": token, "next": f"{HOME}/ask?q=a%26b"})
    assert answer.headers["Location"] == f"./{HOME}/ask?q=a%26b"
    cookie = answer.headers["Set-Cookie"].lower()
    assert {"httponly", "samesite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert token not in cookie
    assert read_token(token) is not None
    assert "walnut" in await looker.look(f"{HOME}/conversation")
    secured = await looker.http.post("sign-in", data={"key": token}, headers={"X-Forwarded-Proto": "https"})
    assert "secure" in secured.headers["Set-Cookie"].lower()


async def test_signing_in_leads_to_no_page_but_ours(looker: Looker) -> None:
    for wanted in (
        "https://evil.example/",
        "//evil.example",
        "of/../../evil",
        "javascript:alert(1)",
        "of/a\\b",
        "of/%2e%2e/%2e%2e/docs",
        "of/.%2E/docs",
        "of/default/..#x",
        "of/default/%2e",
    ):
        answer = await looker.http.post("sign-in", data={"key": await looker.server.key(), "next": wanted})
        assert answer.headers["Location"] == "./of/default/users", wanted


async def test_wrong_keys_are_refused_and_after_many_of_them_all_are_for_a_while(tmp_path: Path) -> None:
    async with looking({"data_dir": tmp_path}, server_failed_keys_per_minute=6) as looker:
        answers = [await looker.http.post("sign-in", data={"key": "ma_x"}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [401, 429, 429]
        # It says so of the key, and nothing of headers, which nobody at a form has sent.
        assert "the API key is unknown; copy it whole" in text_of(answers[0].text)
        assert "Authorization" not in answers[0].text
        assert "ma_x" not in answers[0].text


async def test_a_form_above_64_kilobytes_is_refused_also_below_another_path(looker: Looker) -> None:
    for path in ("sign-in", f"{ANN}/forget"):
        for extra, status in ((b"", {401, 303}), (b"x", {413})):
            sent = await looker.http.post(path, content=b"key=" + b"%41" * 21_844 + extra)
            assert sent.status_code in status
    mounted = Starlette(routes=[Mount("/below", looker.server.app)])
    transport = httpx.ASGITransport(mounted)
    async with httpx.AsyncClient(transport=transport, base_url="http://test/below/inspect/") as http:
        assert (await http.post("sign-in", content=b"x" * 65_537)).status_code == 413
        assert (await http.post("sign-in", content=b"key=x")).status_code == 401


async def test_a_key_that_is_revoked_opens_no_page_any_more(looker: Looker) -> None:
    token = await looker.sign_in()
    await looker.look(f"{HOME}/ask", q="What about walnuts?")
    key_id, _ = read_token(token) or ("", "")
    async with contextlib.AsyncExitStack() as stack:
        await (await open_keys(looker.server.cfg, None, stack)).revoke(key_id, SystemClock().now())
    page = await looker.look(f"{HOME}/ask", q="What about walnuts?", status=401)
    assert "was revoked" in page
    assert "walnut" not in page
    assert (await looker.send(f"{ANN}/forget", typed="ann", csrf="x")).status_code == 401


async def test_a_login_ends_when_somebody_signs_out(looker: Looker) -> None:
    await looker.sign_in(read_only=True)
    ((cookie, name),) = looker.http.cookies.items()
    assert (await looker.send("sign-out", csrf=await looker.csrf())).status_code == 303
    looker.http.cookies.set(cookie, name)
    assert (
        (await looker.http.get(ANN)).headers["Location"].endswith("sign-in?next=of%2Fdefault%2Fusers%2Fann")
    )


def test_sessions_end_by_themselves_and_a_ticket_works_once_and_soon() -> None:
    now = [0.0]
    logins = Logins(lambda: now[0])
    name, ticket, late = logins.begin("k"), logins.ticket("k"), logins.ticket("k")
    assert (logins.redeem(ticket), logins.redeem(ticket), logins.redeem("?")) == ("k", None, None)
    now[0] = TICKET_SECONDS
    assert logins.redeem(late) is None
    while now[0] < LONGEST_SECONDS - IDLE_SECONDS:
        now[0] += IDLE_SECONDS / 2
        assert logins.find(name) is not None
    now[0] += IDLE_SECONDS + 1
    assert logins.find(name) is None
    assert logins.find(logins.begin("k")) is not None


def test_a_key_that_signs_in_again_and_again_ends_only_its_own_oldest_sessions_and_tickets() -> None:
    logins = Logins()
    other, other_ticket = logins.begin("other"), logins.ticket("other")
    names = [logins.begin("k") for _ in range(20)]
    tickets = [logins.ticket("k") for _ in range(25)]
    assert logins.find(names[0]) is not None  # used, and so not the oldest any more
    names += [logins.begin("k") for _ in range(5)]
    lasting = [name for name in names if logins.find(name)]
    assert lasting == [names[0], *names[6:]]
    assert logins.find(other) is not None
    assert [word for word in tickets if logins.redeem(word)] == tickets[5:]
    assert logins.redeem(other_ticket) == "other"


async def test_who_signs_in_comes_back_to_a_user_whose_name_is_that_of_the_pages(looker: Looker) -> None:
    await looker.service.agent("inspect", "inspect").add_user_message("Hello.")
    wanted = "of/default/users/inspect/inspect/conversation"
    asked = await looker.http.get(f"{wanted}?after=0")
    form = (await looker.http.get(str(asked.next_request and asked.next_request.url))).text
    assert f'name="next" value="{wanted}?after=0"' in form
    await looker.sign_in()
    page = await looker.look(wanted)
    assert 'href="../../../../../static/inspect.css' in page
    mounted = Starlette(routes=[Mount("/inspect/caf\xe9", looker.server.app)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(mounted), base_url="http://test") as http:
        below = await http.get(f"/inspect/caf%C3%A9/inspect/{wanted}")
    assert below.headers["Location"] == f"../../../../../sign-in?next={quote(wanted, safe='')}"


async def test_a_link_to_the_other_language_keeps_what_is_asked_for_and_is_never_one_to_a_form(
    looker: Looker,
) -> None:
    async def followed(answer: httpx.Response) -> str:
        link = re.search(r'hreflang="ko" href="([^"]+)"', answer.text)
        assert link is not None
        there = await looker.http.get(answer.url.join(html.unescape(link[1])))
        assert (there.status_code, '<html lang="ko">' in there.text) == (200, True)
        return there.text

    wanted = f'name="next" value="{HOME}/ask?q=a&amp;now="'
    where = {"next": f"{HOME}/ask?q=a&now="}
    assert wanted in await followed(await looker.http.get("sign-in", params=where))
    assert wanted in await followed(await looker.send("sign-in", key="ma_x", **where))
    await looker.sign_in()
    assert "walnut" in await followed(await looker.http.get(f"{HOME}/ask?lang=en&q=walnut"))
    await looker.look(ANN, lang="en")
    word = await looker.csrf()
    for typed in ("anne", "ann"):
        await followed(await looker.send(f"{ANN}/forget", typed=typed, csrf=word))
        await looker.look("of/default/users", lang="en")


# --- changes -------------------------------------------------------------------------------------------------
async def test_a_form_without_the_word_changes_nothing_and_forgetting_wants_the_id(looker: Looker) -> None:
    await looker.sign_in()
    await looker.csrf()
    for word in ("", "x", "ä"):
        for path in CHANGES:
            assert (await looker.send(path, typed="ann", do="set", csrf=word)).status_code == 403, path
    right = await looker.csrf()
    answer = await looker.http.post(
        f"{ANN}/forget", data={"typed": "ann", "csrf": right}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == 403
    assert (await looker.service.users()).users[0].turns == 8
    # With it, forgetting wants the id typed, and shows the receipt.
    await looker.sign_in()
    word = await looker.csrf()
    wrong = await looker.send(f"{ANN}/forget", typed="anne", csrf=word)
    assert (wrong.status_code, "nothing was erased" in wrong.text) == (422, True)
    done = await looker.send(f"{ANN}/forget", typed="ann", csrf=word)
    assert done.status_code == 200
    assert "was erased" in done.text
    assert (await looker.service.users()).users == ()


async def test_a_key_that_may_only_read_sees_no_forms_and_its_forms_are_refused(looker: Looker) -> None:
    await looker.sign_in(read_only=True)
    for path in (f"{ANN}?forget=1", f"{HOME}/facts", f"{HOME}/facts?path=name"):
        assert re.findall('<form method="post" action="([^"]*)"', await looker.look(path)) == [
            f"{'../' * path.count('/')}sign-out"
        ]
    word = await looker.csrf()
    for path in CHANGES:
        answer = await looker.send(path, typed="ann", do="set", path="name", value="Eve", csrf=word)
        assert (answer.status_code, "may only read" in answer.text) == (403, True), path
    assert (await looker.service.users()).users[0].turns == 8


# --- tenants and users ---------------------------------------------------------------------------------------
async def test_anothers_address_is_refused_but_to_a_key_for_all_tenants(looker: Looker) -> None:
    await looker.sign_in("acme")
    assert "ann" not in await looker.look("of/acme/users")
    word = await looker.csrf("of/acme/users")
    for path, methods in METHODS:
        if path.startswith("of/"):
            answer = await looker.http.request(methods[0], path, data={"csrf": word, "typed": "ann"})
            assert (answer.status_code, "walnut" in answer.text) == (403, False), path
    await looker.sign_in(user_id="bob")
    assert "walnut" not in await looker.look(f"{HOME}/conversation", status=403)
    assert "ann" not in text_of(await looker.look("of/default/users"))
    # A key for all tenants looks at each by its address.
    await looker.sign_in(ALL_TENANTS)
    assert "ann" in await looker.look("of/default/users")
    assert "ann" not in await looker.look("of/acme/users")


async def test_a_ticket_lets_in_once_and_nobody_behind_another_sites_link(looker: Looker) -> None:
    headers = await looker.server.headers(read_only=True)
    assert (await looker.http.post("ticket")).status_code == 401
    ticket = (await looker.http.post("ticket", headers=headers)).json()["ticket"]
    assert (await looker.http.get("enter", params={"ticket": ticket})).status_code == 303
    assert "may only read" in await looker.look(ANN)
    looker.http.cookies.clear()
    assert "used already" in await looker.look("enter", ticket=ticket, status=401)
    # Behind the link of another site it signs nobody in, and stays good.
    answer = await looker.http.post("ticket", headers=await looker.server.headers())
    query = {"ticket": answer.json()["ticket"]}
    for site in ("cross-site", "same-site"):
        refused = await looker.http.get("enter", params=query, headers={"Sec-Fetch-Site": site})
        assert (refused.status_code, "Set-Cookie" in refused.headers) == (403, False)
        assert "open this address yourself" in refused.text
        assert query["ticket"] not in refused.text
    assert (await looker.http.get("enter", params=query, headers={"Sec-Fetch-Site": "none"})).is_redirect


async def test_a_page_of_another_origin_signs_nobody_in(looker: Looker) -> None:
    host = looker.server.address.removeprefix("http://")
    origins: list[tuple[dict[str, str], int]] = [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://{host}"}, 303),
        ({"Origin": "http://{name}:1"}, 403),
        ({"Origin": "http://{host}", "Host": "{name}"}, 303),
        ({"Origin": "https://memory.example", "Sec-Fetch-Site": "same-origin"}, 303),
        ({"Origin": "http://{host}", "Sec-Fetch-Site": "same-site"}, 403),
        ({}, 303),
    ]
    for headers, status in origins:
        sent = {name: text.format(host=host, name=host.partition(":")[0]) for name, text in headers.items()}
        answer = await looker.http.post("sign-in", data={"key": await looker.server.key()}, headers=sent)
        assert (answer.status_code, "Set-Cookie" in answer.headers) == (status, status == 303), headers


async def test_without_keys_a_link_from_another_site_leads_to_the_page(tmp_path: Path) -> None:
    async with looking({"data_dir": tmp_path}, insecure_no_auth=True) as looker:
        await tell_of_walnuts(looker.service)
        answer = await looker.http.get(ANN, headers={"Sec-Fetch-Site": "cross-site"})
        assert (answer.status_code, '<meta http-equiv="refresh" content="0">' in answer.text) == (200, True)
        onward = {"Sec-Fetch-Site": "same-origin"}
        assert "Threads" in (await looker.http.get(ANN, headers=onward, follow_redirects=True)).text


async def test_without_keys_who_is_on_this_machine_is_let_in_and_no_form_from_elsewhere(
    tmp_path: Path,
) -> None:
    async with looking({"data_dir": tmp_path}, insecure_no_auth=True) as looker:
        await tell_of_walnuts(looker.service)
        answer = await looker.http.get(ANN, follow_redirects=True)
        assert "Forget" in answer.text
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            sent = await looker.http.post(
                f"{ANN}/forget", data={"typed": "ann", "csrf": await looker.csrf()}, headers=headers
            )
            assert sent.status_code in (403, 421)
        assert (await looker.send(f"{ANN}/forget", typed="ann")).status_code == 403
        assert (await looker.service.users()).users[0].turns == 8


async def test_nonsense_in_cookies_and_forms_is_refused_politely(looker: Looker) -> None:
    odd: dict[str, Any] = {"Cookie": f'a="b; [c]=d; ma_inspect={base64.b64encode(bytes(40)).decode()}'}
    assert (await looker.http.get(ANN, headers=odd)).status_code == 303
    await looker.sign_in()
    for body in (b"\xff=1", b"&".join(b"a=%d" % n for n in range(99))):
        sent = await looker.http.post(f"{ANN}/forget", content=body)
        assert sent.status_code == 422
    assert timedelta(seconds=IDLE_SECONDS) == timedelta(hours=1)
