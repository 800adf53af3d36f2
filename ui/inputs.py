"""What people type, cleaned or refused with a sentence. Nothing here knows rooms or browsers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from agent.labels import RESERVED_NAMES, THERAPIST

LONGEST_LINE: Final = 4000
"""Characters that fit in one line."""
LONGEST_NAME: Final = 40
ONE_STAYS_ON: Final = (
    "At least one way of supporting that asks nothing of two people at once has to stay on. "
    "To keep Kith quiet, pause it."
)
LEFT: Final = (
    "You are not in this room any more. Your own link leads back in. If you did not keep it, "
    "somebody who is in the room can invite you again under “People and links”, with a slightly "
    "different name."
)
YOUNG_CAME: Final = "A young person has joined and can read what was said here."
ROLES: Final = {
    "couple": ("partner",),
    "family": ("parent", "son or daughter", "sibling", "grandparent", "other"),
}
AGES: Final = ("adult", "teen", "child")
YOUNG: Final = frozenset({"teen", "child"})
AGENT_NAME: Final = "Kith"
"""What the room calls the supporting side; transcripts call it ``labels.THERAPIST``."""

_ALIKE: Final = str.maketrans(
    # Cyrillic, Greek and small capitals that read as Latin letters
    "авекмнорстухіјѕһԁԛԝѵαβεηικνορτυχϲᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢıɩʼ",
    "abekmhopctyxijshdqwvabenikvoptuxcabcdeghijklmnoprstuvwyzii'",
)
_LEET: Final = str.maketrans("0134578l|!$@", "oieastbiiisa")
# overrides can make a line read as something else than was written; marks and isolates are harmless
_OVERRIDES: Final = frozenset("\u202d\u202e")
_KEPT_CONTROLS: Final = frozenset("\n\t")


class Refused(ValueError):
    """Something a person entered cannot be taken. The message is a sentence for that person."""


def clean_line(text: str) -> str:
    """Return the line as it is stored.

    Control characters (except line breaks and tabs), direction overrides and broken characters
    are dropped; other scripts, right-to-left text and emoji stay as they are.

    Raises:
        Refused: when nothing is left, or the line is longer than ``LONGEST_LINE``.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(c for c in text if _is_kept(c)).strip()
    if not kept:
        raise Refused("There was nothing to send: the message was empty.")
    if len(kept) > LONGEST_LINE:
        raise Refused(
            f"That message has {len(kept):,} characters and up to {LONGEST_LINE:,} fit. "
            "Nothing was sent: please say it in smaller parts."
        )
    return kept


def _is_kept(character: str) -> bool:
    if character in _KEPT_CONTROLS:
        return True
    if character in _OVERRIDES:
        return False
    return unicodedata.category(character) not in ("Cc", "Cs")


def clean_name(name: str, taken: Iterable[str] = ()) -> str:
    """Return a first name as it is shown.

    Raises:
        Refused: when it is empty, too long, reserved, or belongs to somebody in the room.
    """
    shown = "".join(c if _is_kept(c) and unicodedata.category(c) != "Cf" else " " for c in name)
    shown = " ".join(unicodedata.normalize("NFC", shown).split())
    if not any(c.isalnum() for c in shown):
        raise Refused("Please give a first name: at least one letter.")
    if len(shown) > LONGEST_NAME:
        raise Refused(f"That name is long for a room: please use up to {LONGEST_NAME} characters.")
    if _reserved(shown):
        raise Refused(f"“{shown}” has a meaning of its own here. Please pick another name.")
    if _key(shown) in {_key(other) for other in taken}:
        raise Refused(
            f"There is already a “{shown}” in this room. An initial or a nickname tells you apart."
        )
    return shown


def _key(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold().translate(_ALIKE)
    return folded.replace(" ", "")


def _shape(text: str) -> str:
    """Return what a word looks like at a glance: no accents, no signs, look-alikes made one."""
    bare = unicodedata.normalize("NFKD", text).casefold().translate(_ALIKE).translate(_LEET)
    return "".join(c for c in bare if c.isalnum())


_AGENT_WORDS: Final = frozenset(map(_shape, (AGENT_NAME, THERAPIST)))
"""Words that no name may hold: its bearer could be taken for the agent."""
_OTHERS: Final = ("Everyone", "Room", "Helper", "System", "Assistant", "Third person")
_RESERVED: Final = frozenset(map(_shape, (*RESERVED_NAMES, *_OTHERS, "Somebody else"))) | (
    _AGENT_WORDS
)


def _reserved(name: str) -> bool:
    words = {_shape(word) for word in re.split(r"[\W_]+", unicodedata.normalize("NFKC", name))}
    return _shape(name) in _RESERVED or bool(words & _AGENT_WORDS)


def clean_role(scenario: str, role: str) -> str:
    """Return the role when it is one of the scenario's.

    Raises:
        Refused: naming the roles there are.
    """
    allowed = ROLES[scenario]
    if role not in allowed:
        raise Refused(f"Please pick a role: {', '.join(allowed)}.")
    return role


def clean_age(scenario: str, age: str) -> str:
    """Return the age group; a couple's partners are adults.

    Raises:
        Refused: when a family member's age group is not one of ``AGES``.
    """
    if scenario == "couple":
        return "adult"
    if age not in AGES:
        raise Refused(f"Please pick an age group: {', '.join(AGES)}.")
    return age
