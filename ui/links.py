"""Signed links and cookies: who somebody is, for how long, in which room."""

from __future__ import annotations

from typing import Final, NamedTuple

import segno
from itsdangerous import BadSignature, SignatureExpired, URLSafeTimedSerializer

COOKIE: Final = "kith_member"
COOKIE_DAYS: Final = 30


class Member(NamedTuple):
    """A person in a room, by ids."""

    room: str
    person: str


class LinkRefused(ValueError):
    """A link or cookie is not valid. The message says what to do."""


class Links:
    """Makes and reads links (for one person, expiring) and cookies.

    Args:
        secret: signs both.
        hours: life of a join link.

    Attributes:
        hours: the same.
        own_hours: life of the link that leads somebody back.
    """

    def __init__(self, secret: str, hours: int) -> None:
        self._link = URLSafeTimedSerializer(secret, salt="kith-join-link")
        self._own = URLSafeTimedSerializer(secret, salt="kith-own-link")
        self._cookie = URLSafeTimedSerializer(secret, salt="kith-member-cookie")
        self.hours = hours
        self.own_hours = max(hours, COOKIE_DAYS * 24)

    def invite(self, member: Member) -> str:
        """Return the token of a link that lets one person in for the first time."""
        return self._link.dumps(list(member))

    def own(self, member: Member) -> str:
        """Return the token of a link that only this person is shown: it also lets them back in.

        It lasts as long as a cookie, or as a join link where that is longer.
        """
        return self._own.dumps(list(member))

    def is_own(self, token: str) -> bool:
        """Whether a token that was accepted was shown to its person alone."""
        return self._own.loads_unsafe(token)[0]

    def accept(self, token: str) -> Member:
        """Read a link's token.

        Raises:
            LinkRefused: when it is expired, changed or not ours.
        """
        own = self.is_own(token)
        signer, hours = (self._own, self.own_hours) if own else (self._link, self.hours)
        try:
            return _member(signer.loads(token, max_age=hours * 3600))
        except SignatureExpired:
            ask = "Somebody in the room" if own else "The person who sent it"
            raise LinkRefused(f"This link has expired. {ask} can invite you again.") from None
        except BadSignature:
            raise LinkRefused(
                "This link is not complete. Copy the whole link, or scan the code again."
            ) from None

    def cookie(self, member: Member) -> str:
        """Return the value of a member's cookie."""
        return self._cookie.dumps(list(member))

    def who(self, cookie: str | None) -> Member | None:
        """Return whose cookie it is; None when there is none, or it is expired or changed."""
        if not cookie:
            return None
        try:
            return _member(self._cookie.loads(cookie, max_age=COOKIE_DAYS * 86400))
        except BadSignature:
            return None


def _member(value: object) -> Member:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value):
        return Member(*value)
    raise BadSignature("not a member")


def qr_svg(url: str) -> str:
    """Return the link as an inline SVG code, dark on light whatever the theme."""
    code = segno.make(url, error="m")
    return str(code.svg_inline(border=3, dark="#1f2a2e", light="#ffffff", omitsize=True))
