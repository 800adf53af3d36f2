"""Our own routes: the plain pages, links and downloads. FastAPI only; Chainlit is handed in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse

from agent.safety.resources import countries
from ui import export, pages
from ui.desk import Desk
from ui.help_page import ELSEWHERE, country_of, help_page, language_of
from ui.inputs import Refused
from ui.links import COOKIE, COOKIE_DAYS, LinkRefused, Member
from ui.playback import scripts
from ui.room import Room

LONGEST_FORM = 20_000
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})

SignIn = Callable[[Request, Response, Member, str], None]
SignOut = Callable[[Request, Response], None]
Form = dict[str, str]


async def _form(request: Request) -> Form:
    """Read a small form; the standard library is enough for that."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {k: v[0] for k, v in fields.items()}


FormData = Annotated[Form, Depends(_form)]


def make_router(
    desk: Desk,
    chat_page: Callable[[Request], Awaitable[Response]],
    sign_in: SignIn,
    sign_out: SignOut,
) -> APIRouter:
    """Return the routes that stand before Chainlit's.

    Args:
        desk: the rooms.
        chat_page: makes the chat's page.
        sign_in: sets Chainlit's cookie on a response.
        sign_out: takes it away.
    """
    router = APIRouter()

    async def here(request: Request) -> tuple[Room, str] | None:
        return await desk.find(desk.links.who(request.cookies.get(COOKIE)))

    def enter(request: Request, room: Room, person: str, to: str) -> Response:
        member = Member(room.info.id, person)
        response = RedirectResponse(to, 303)
        response.set_cookie(
            COOKIE,
            desk.links.cookie(member),
            max_age=COOKIE_DAYS * 86400,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        sign_in(request, response, member, room.people[person].name)
        return response

    async def placed(request: Request, asked: str | None) -> str | None:
        """Remember the country somebody chose, or the one their browser names, for help near.

        Args:
            request: with the browser's cookie and languages.
            asked: the country, "" for "somewhere else", None when nobody chose.

        Returns:
            The country that is known now; None where none is, or nobody is in a room.
        """
        found = await here(request)
        if found is None or found[0].people[found[1]].consented is None:
            return None
        room, person = found
        carer, locale = desk.companion(room).carer, request.headers.get("accept-language")
        await carer.load()
        name = room.people[person].name
        before = carer.state.of(name).country or desk.settings.country
        country = chosen = asked if asked in countries() else None
        if asked == "" and (before or country_of(locale)):
            country = chosen = ELSEWHERE
        # people at one screen are in one place
        for who in room.present() if room.one_browser else [room.people[person]]:
            await carer.place(
                who.name,
                country or country_of(locale),
                language_of(locale),
                chosen=chosen is not None,
            )
        return carer.state.of(name).country

    def gone(request: Request, response: Response) -> Response:
        response.delete_cookie(COOKIE)
        sign_out(request, response)
        return response

    @router.get("/")
    @router.get("/login")
    async def home(request: Request) -> Response:
        found = await here(request)
        if found is None:
            return HTMLResponse(pages.landing())
        room, person = found
        if room.people[person].consented is None:
            return RedirectResponse("/consent", 303)
        await placed(request, None)
        return await chat_page(request)

    @router.get("/start/{scenario}")
    async def start_form(scenario: str, together: int = 0) -> Response:
        if scenario not in ("couple", "family"):
            return RedirectResponse("/", 303)
        return HTMLResponse(pages.start(scenario, bool(together)))

    @router.post("/start/{scenario}")
    async def start(request: Request, scenario: str, form: FormData, together: int = 0) -> Response:
        try:
            room, person = await _make(desk, scenario, bool(together), form)
        except Refused as refusal:
            return HTMLResponse(pages.start(scenario, bool(together), str(refusal)), 422)
        return enter(request, room, person, "/consent")

    @router.get("/consent")
    async def consent_form(request: Request) -> Response:
        found = await here(request)
        if found is None:
            return RedirectResponse("/", 303)
        room, person = found
        name = room.people[person].name
        return HTMLResponse(pages.consent(name, "/consent", together=room.one_browser))

    @router.post("/consent")
    async def consent(request: Request, form: FormData) -> Response:
        found = await here(request)
        if found is None or form.get("agree") != "yes":
            return RedirectResponse("/", 303)
        room, person = found
        await agreed(room, person)
        return enter(request, room, person, "/")

    async def agreed(room: Room, person: str) -> None:
        for known in list(room.people) if room.one_browser else [person]:
            await room.consent(known)

    async def invited(request: Request, token: str) -> tuple[Room, str] | Response:
        try:
            member = desk.links.accept(token)
        except LinkRefused as refusal:
            return HTMLResponse(pages.refused("This link does not work", str(refusal)), 403)
        room = await desk.hall.open(member.room)
        if room is None or member.person not in room.people:
            text = "The room was deleted. Ask for a new one, or start your own."
            return HTMLResponse(pages.refused("This room is gone", text), 404)
        own = desk.links.who(request.cookies.get(COOKIE))
        if own is not None and own.room == member.room and own.person != member.person:
            name, mine = room.people[member.person].name, room.people[own.person].name
            text = (
                f"This link was made for {name}, and this browser is in the room as {mine}. "
                f"{name} opens it on another device, or after you leave the room here."
            )
            return HTMLResponse(pages.refused("This link is for somebody else", text), 403)
        # whoever invites somebody knows the invitation: it must not open what they whisper later
        if room.people[member.person].consented and own != member and not desk.links.is_own(token):
            text = (
                "Somebody came in with this link. To come back, or to use another device, take "
                "your own link: it stands on the page “People”, and is shown to you alone."
            )
            return HTMLResponse(pages.refused("This link was used", text), 403)
        return room, member.person

    @router.get("/join/{token}")
    async def join_form(request: Request, token: str) -> Response:
        found = await invited(request, token)
        if isinstance(found, Response):
            return found
        room, person = found
        known = room.people[person]
        if known.consented and not known.gone:
            return enter(request, room, person, "/")
        page = pages.consent(known.name, f"/join/{token}", together=room.one_browser)
        return HTMLResponse(page)

    @router.post("/join/{token}")
    async def join(request: Request, token: str, form: FormData) -> Response:
        found = await invited(request, token)
        if isinstance(found, Response):
            return found
        room, person = found
        if form.get("agree") != "yes":
            return RedirectResponse(f"/join/{token}", 303)
        await agreed(room, person)
        return enter(request, room, person, "/")

    def people_page(request: Request, room: Room, person: str, error: str = "") -> Response:
        base = str(request.base_url).rstrip("/")
        links = {}
        if not room.one_browser:
            links = {
                p.id: f"{base}/join/{desk.links.invite(Member(room.info.id, p.id))}"
                for p in room.people.values()
                if p.consented is None
            }
        if room.info.mode != "demo":
            links[person] = f"{base}/join/{desk.links.own(Member(room.info.id, person))}"
        local = request.url.hostname in _LOCAL
        days = desk.links.own_hours // 24
        page = pages.people(room, person, links, local=local, days=days, error=error)
        return HTMLResponse(page, 422 if error else 200)

    @router.get("/people")
    async def people(request: Request) -> Response:
        found = await here(request)
        return people_page(request, *found) if found else RedirectResponse("/", 303)

    @router.post("/people")
    async def invite(request: Request, form: FormData) -> Response:
        found = await here(request)
        if found is None:
            return RedirectResponse("/", 303)
        room, person = found
        try:
            await room.add_person(
                form.get("name", ""),
                form.get("role", ""),
                form.get("age", ""),
                consented=room.one_browser,
            )
        except Refused as refusal:
            return people_page(request, room, person, str(refusal))
        return RedirectResponse("/people", 303)

    @router.get("/leave")
    async def leave_form(request: Request) -> Response:
        found = await here(request)
        return HTMLResponse(pages.leave(found[0])) if found else RedirectResponse("/", 303)

    @router.post("/leave")
    async def leave(request: Request, form: FormData) -> Response:
        found = await here(request)
        if found is None:
            return gone(request, RedirectResponse("/", 303))
        room, person = found
        how = form.get("how")
        if how == "delete" and room.one_browser:
            await desk.delete_room(room)
        else:
            if how == "erase":
                name = room.people[person].name
                keys = [x.key for x in room.lines if x.speaker == name and not x.erased]
                await room.erase(person, keys, answers=True)
                await desk.companion(room).carer.forget_person(name)
            if not room.one_browser:
                await room.goodbye(person)
        return gone(request, RedirectResponse("/", 303))

    @router.post("/exit")
    async def quick_exit(request: Request) -> Response:
        return gone(request, Response(status_code=204))

    @router.get("/export/{kind}")
    async def download(request: Request, kind: str) -> Response:
        found = await here(request)
        if found is None or kind not in ("md", "jsonl"):
            return RedirectResponse("/", 303)
        room, person = found
        companion = desk.companion(room)
        await companion.load()
        if kind == "md":
            text = export.markdown(room, companion, person)
            media = "text/markdown"
        else:
            text, media = export.rescue_jsonl(room, companion, person), "application/jsonl"
        name = f'attachment; filename="conversation.{kind}"'
        return PlainTextResponse(
            text, media_type=f"{media}; charset=utf-8", headers={"content-disposition": name}
        )

    @router.get("/demo")
    async def demo_list() -> Response:
        return HTMLResponse(pages.demos(scripts().values()))

    @router.post("/demo")
    async def demo(request: Request, form: FormData) -> Response:
        try:
            room, person = await desk.create_demo(form.get("id", ""))
        except Refused as refusal:
            return HTMLResponse(pages.demos(scripts().values(), str(refusal)), 422)
        return enter(request, room, person, "/")

    @router.get("/help")
    async def urgent_help(request: Request, country: str | None = None) -> Response:
        locale = request.headers.get("accept-language")
        known = await placed(request, country)
        asked = known if country is None else country
        return HTMLResponse(help_page(asked, desk.settings.country, locale))

    return router


async def _make(desk: Desk, scenario: str, together: bool, form: Form) -> tuple[Room, str]:
    room = await desk.hall.create(scenario, "hot_seat" if together else "shared")
    try:
        first = await room.add_person(
            form.get("name", ""), form.get("role", ""), form.get("age", "")
        )
        if together:
            await room.add_person(
                form.get("name2", ""), form.get("role2", ""), form.get("age2", "")
            )
    except Refused:
        await desk.hall.delete(room.info.id)
        raise
    return room, first.id
