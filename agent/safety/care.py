"""What happens after a flag: pure rules from a turn and its flags to what is said, and to whom.

Sources by id in docs/safety.md: S1-S7 (self-harm), S14-S19 (harm between people), S10, S11, S23,
S25 and S29 (the room itself). The caller delivers the plan and stores the state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from agent.safety import cues
from agent.safety.care_aloud import JOINT, counted, noted, strategies_off
from agent.safety.care_keys import HELP, answers_at_the_screen, key_of, question_of
from agent.safety.care_state import (
    CarePlan,
    CareState,
    Heard,
    Message,
    PersonCare,
    Setting,
    Topic,
)
from agent.safety.care_weigh import leading, topic_of, weighed, without_noise
from agent.safety.care_words import has, places, word, words
from agent.safety.resources import ResourceKind
from agent.safety.types import Flag, Kind

__all__ = ["COOLDOWN", "JOINT", "REMIND_SECONDS", "care", "strategies_off"]

COOLDOWN: Final = 10
"""Turns of a person after which places to get help are named again (S6)."""
REMIND_SECONDS: Final = 3 * 3600.0
_ENDS_JOINT: Final = frozenset({"violence", "coercive_control", "threat", "child_abuse"})
_BETWEEN: Final = frozenset({"violence", "coercive_control", "child_abuse", "actor", "target"})
"""Topics about harm between people."""
_DANGER_IS_NO: Final = frozenset({"violence", "coercive_control", "child_abuse", "target"})
"""Topics whose question asks for safety, so that "no" means danger."""
_UNSURE: Final = 2
"""Unclear answers that are left at that before a question counts as unanswered."""


def care(
    state: CareState,
    setting: Setting,
    heard: Heard,
    flags: Sequence[Flag],
    doubtful: Collection[Kind] = (),
) -> tuple[CareState, CarePlan]:
    """Return the state after a turn, and what to do about it.

    Args:
        state: before the turn.
        setting: the room.
        heard: the turn.
        flags: what the safety layers found in it (alarms the language model cleared left out).
        doubtful: kinds that need a second alarm, unless they are whispered.
    """
    state, standing, quiet = weighed(state, heard, without_noise(flags, heard), doubtful)
    return _Turn(state, setting, heard, standing, quiet).run()


class _Turn:
    """One turn being cared for."""

    def __init__(
        self,
        state: CareState,
        setting: Setting,
        heard: Heard,
        flags: Sequence[Flag],
        quiet: Collection[Kind],
    ) -> None:
        self.state = state
        self.quiet = quiet
        self.setting = setting
        self.heard = heard
        self.flags = flags
        known = self.me.language
        self.language = cues.language_of(heard.text, known if known in words() else "en")
        self.plan = CarePlan()

    def run(self) -> tuple[CareState, CarePlan]:
        me = self.me
        changed = {
            "turns": me.turns + 1,
            "spoken": me.spoken + (not self.heard.private),
            "language": self.language if self.flags else me.language,
        }
        self._put(self.heard.speaker, me.model_copy(update=changed))
        self.state = counted(self.state, self.heard, self.setting.here)
        self.state = noted(self.state, self.heard, self.flags, self.quiet)
        self._note()
        if cues.minor_hint(self.heard.text):
            known = "minors_alone" if self.heard.private else "minors"
            names = dict.fromkeys((*getattr(self.state, known), self.heard.speaker))
            self.state = self.state.model_copy(update={known: tuple(names)})
        flag = leading([f for f in self.flags if f.kind not in self.quiet], self.heard.speaker)
        if flag is None:
            self._aside()
        if flag is not None:
            self._concern(flag)
        elif cues.mutual(self.heard.text):
            self._both(self.heard.speaker)
        elif not self._answer() and not (self.setting.paused and self.heard.private):
            self._room()
        self._everybody()
        return self.state, replace(
            self.plan,
            strategies_off=strategies_off(self.state, self.setting.scenario),
            careful=self.state.joint_off,
        )

    # state

    @property
    def me(self) -> PersonCare:
        return self.state.of(self.heard.speaker)

    def _put(self, name: str, person: PersonCare) -> None:
        self.state = self.state.with_person(name, person)

    def _note(self) -> None:
        """Switch joint strategies off where somebody may be harmed by somebody (S15)."""
        kinds = {f.kind for f in self.flags} & _ENDS_JOINT
        mutual = cues.mutual(self.heard.text)
        if (kinds or mutual) and not self.state.joint_off:
            off = {"joint_off": True, "joint_since": self.heard.seq}
            self.state = self.state.model_copy(update=off)
            self.plan = replace(self.plan, switched=True)
        if not self.heard.private and (mutual or kinds - set(self.quiet)):
            self.state = self.state.model_copy(update={"harm_aloud": True})

    # concerns

    def _concern(self, flag: Flag) -> None:
        speaker = self.heard.speaker
        self.plan = replace(self.plan, hold=True)
        if flag.kind == "dependency":
            self._say_where_said("dependency.ask")
            return
        topic = topic_of(flag, speaker)
        denial = flag.evidence.rule == "denial_after_disclosure"
        urgent = not denial and self._urgent(topic, flag)
        self._message(speaker, topic, denial=denial, urgent=urgent)
        if topic == "actor":
            self._after_threat(flag)
        elif cues.mutual(self.heard.text):
            self._both(speaker, told=True)

    def _aside(self) -> None:
        """Tell the speaker alone, and go on in the room: only a whisper made the alarm count."""
        flag = leading(self.flags, self.heard.speaker)
        if flag is not None and flag.kind != "dependency":
            topic = topic_of(flag, self.heard.speaker)
            self._message(self.heard.speaker, topic, urgent=self._urgent(topic, flag))

    def _both(self, speaker: str, *, told: bool = False) -> None:
        """Check on each in private where somebody says that both hurt each other (S19)."""
        self.plan = replace(self.plan, hold=True)
        everybody = (speaker,) if self.heard.private else self.setting.people
        for name in everybody:
            if not (told and name == speaker):
                self._message(name, "target")

    def _urgent(self, topic: Topic, flag: Flag) -> bool:
        if topic in ("self_harm", "violence", "coercive_control", "child_abuse"):
            return cues.urgent(self.heard.text, topic == "self_harm")
        return False

    def _after_threat(self, flag: Flag) -> None:
        """Decided policy for threats: general help for all; the content reaches nobody (S16)."""
        if self.setting.shared_screen:
            return
        if self.heard.private:
            due = not self.state.general_told
            self.state = self.state.model_copy(update={"general_due": due})
        elif flag.about in self.setting.people and flag.about != self.heard.speaker:
            # they read it themselves
            self._message(str(flag.about), "target")

    def _message(
        self, to: str, topic: Topic, *, denial: bool = False, urgent: bool = False
    ) -> None:
        """Plan the next message about a topic to a person (S1, S3, S5, S6)."""
        if self.setting.shared_screen and topic in _BETWEEN:
            self._general_on_screen(to)
            return
        person = self.state.of(to)
        young = self._minor(self.heard.speaker)
        key = key_of(person, topic, self.flags, denial=denial, urgent=urgent, young=young)
        parts = [word(key, self._language(to), name=to)]
        offers_help = urgent or topic in ("medical", "actor")
        person = self._with_help(person, topic, parts, to, offers_help)
        if topic in ("violence", "coercive_control") and topic not in person.count:
            parts.append(word("exit", self._language(to)))
        person = self._with_audience(person, parts, to, topic)
        waiting = question_of(key, topic)
        person = person.model_copy(
            update={
                "asked": {**person.asked, waiting: person.turns} if waiting else person.asked,
                "count": {**person.count, topic: person.count.get(topic, 0) + 1},
                "waiting": waiting,
                "unsure": 0,
            }
        )
        self._put(to, person)
        self._deliver(to, " ".join(parts))

    def _with_help(
        self, person: PersonCare, topic: Topic, parts: list[str], to: str, now: bool
    ) -> PersonCare:
        kinds = HELP[topic] + (("emergency",) if now and "emergency" not in HELP[topic] else ())
        if self._minor(to) and topic != "medical" and "child" not in kinds:
            kinds = ("child", *kinds)
        due = [k for k in kinds if self._due(person, k)]
        if not due and not now:
            return person
        language, country = self._language(to), person.country or self.setting.country
        named = places(country, language, tuple(kinds if now else due))
        parts.append(word("help", language, help=named))
        parts.append(word("help_where", language))
        if country is None and not person.country_asked:
            parts.append(word("country", language))
            person = person.model_copy(update={"country_asked": True})
        given: dict[str, int] = dict(person.given)
        given.update((kind, person.turns) for kind in kinds)
        return person.model_copy(update={"given": given})

    def _due(self, person: PersonCare, kind: ResourceKind) -> bool:
        last = person.given.get(kind)
        return last is None or person.turns - last >= COOLDOWN

    def _with_audience(
        self, person: PersonCare, parts: list[str], to: str, topic: Topic
    ) -> PersonCare:
        """State once who sees it and what the agent cannot do (S4, S11)."""
        if person.told_audience:
            return person
        shared = self.setting.shared_screen
        parts.append(word("shared_screen" if shared else "private", self._language(to)))
        if not shared and topic == "self_harm":
            parts.append(word("pause_offer", self._language(to)))
        return person.model_copy(update={"told_audience": True})

    def _general_on_screen(self, to: str) -> None:
        """Name help for everybody: harm is never spelled out where the other reads along (S16)."""
        person = self.state.of(to)
        last = person.given.get("general")
        if last is None or person.turns - last >= COOLDOWN:
            self.plan = replace(self.plan, public=word("general"))
            given = {**person.given, "general": person.turns}
            self._put(to, person.model_copy(update={"given": given}))

    def _deliver(self, to: str, text: str) -> None:
        if self.setting.shared_screen:
            self.plan = replace(self.plan, public=text)
            return
        self.plan = replace(self.plan, private=(*self.plan.private, Message(to, text)))

    # an answer to a direct question

    def _answer(self) -> bool:
        """Take the answer to a direct question; True when something was said."""
        person, topic = self.me, self.me.waiting
        if topic is None:
            return False
        at_screen = self.setting.shared_screen and answers_at_the_screen(
            person, topic, self.heard.text
        )
        if not self.heard.private and not at_screen:
            # they talk to the others: the question stays open and is not pressed
            return False
        if cues.asked(self.heard.text, self.heard.private) is not None:
            return False
        if topic == "company":
            return self._company()
        said = cues.answer(self.heard.text, topic in _DANGER_IS_NO)
        urgent = topic != "target" and cues.urgent(self.heard.text, topic == "self_harm")
        danger = said == ("no" if topic in _DANGER_IS_NO else "yes")
        base: Topic = "violence" if topic == "target" else topic
        self.plan = replace(self.plan, hold=True)
        if danger or (urgent and said != ("yes" if topic in _DANGER_IS_NO else "no")):
            self._message(self.heard.speaker, base, urgent=True)
            return True
        if said == "unclear":
            if person.count.get(topic, 0) > 1 or not has(f"{base}.again"):
                self._left_at_that()
                self.plan = replace(self.plan, hold=False)
                return False
            self._message(self.heard.speaker, base, denial=True)
            count = {**self.me.count, topic: person.count.get(topic, 0) + 1}
            self._put(self.heard.speaker, self.me.model_copy(update={"count": count}))
            return True
        # an open crisis stays open: a whispered "no" must change nothing that others see (S16)
        self._put(self.heard.speaker, person.model_copy(update={"waiting": None}))
        key = f"{base}.no" if base == "self_harm" else f"{base}.safe"
        if has(key):
            self._deliver(self.heard.speaker, word(key, "en", name=self.heard.speaker))
        return True

    def _left_at_that(self) -> None:
        """Ask nothing more after an unclear answer, and still take the next ones as answers."""
        unsure = self.me.unsure + 1
        update = {"unsure": unsure, "waiting": self.me.waiting if unsure < _UNSURE else None}
        self._put(self.heard.speaker, self.me.model_copy(update=update))

    def _company(self) -> bool:
        """Take the answer to whether somebody is with them; True when something was said."""
        name, said = self.heard.speaker, cues.answer(self.heard.text, True)
        if said != "yes" and cues.urgent(self.heard.text, True):
            self._message(name, "self_harm", urgent=True)
        elif said == "unclear":
            self._left_at_that()
            return False
        else:
            person = self.me.model_copy(update={"waiting": None})
            parts = [word("self_harm.company" if said == "yes" else "self_harm.alone", name=name)]
            if said == "no":
                person = self._with_help(person, "company", parts, name, True)
            self._put(name, person)
            self._deliver(name, " ".join(parts))
        self.plan = replace(self.plan, hold=True)
        return True

    # the room itself

    def _room(self) -> None:
        """Answer questions about the room and about sides, and keep children's ears free."""
        asked = cues.asked(self.heard.text, self.heard.private)
        if asked == "pause":
            self.plan = replace(self.plan, hold=True, public=word("pause"))
        elif asked == "secrecy" and self._minor(self.heard.speaker, self.heard.private):
            self._say_where_said("secrecy_minor")
        elif asked == "verdict" and self.heard.private:
            self._say_where_said("verdict_private")
        elif asked is not None:
            self._say_where_said(asked)
        elif self._adults_talk_before_a_child():
            self.plan = replace(self.plan, hold=True, public=word("minor_topic"))

    def _adults_talk_before_a_child(self) -> bool:
        if self.heard.private or not cues.adult_topic(self.heard.text):
            return False
        return any(self._minor(p, False) for p in self.setting.people)

    def _say_where_said(self, key: str) -> None:
        text = word(key, self._language(self.heard.speaker), name=self.heard.speaker)
        self.plan = replace(self.plan, hold=True)
        if self.heard.private and not self.setting.shared_screen:
            self._deliver(self.heard.speaker, text)
        else:
            self.plan = replace(self.plan, public=text)

    def _everybody(self) -> None:
        """Give notes that are for all: general help, and the three-hourly reminder (S10, S23)."""
        self._remind_alone()
        if self.heard.private:
            return
        if self.state.general_due:
            told = {"general_due": False, "general_told": True}
            self.state = self.state.model_copy(update=told)
            self.plan = replace(self.plan, notice=word("general"))
        if self.state.reminded is None:
            self.state = self.state.model_copy(update={"reminded": self.heard.at})
        minors = any(self._minor(p, False) for p in self.setting.people)
        if minors and self.heard.at - (self.state.reminded or 0.0) >= REMIND_SECONDS:
            self.state = self.state.model_copy(update={"reminded": self.heard.at})
            self.plan = replace(self.plan, notice=word("reminder"))

    def _remind_alone(self) -> None:
        """Remind somebody who said to the agent alone to be under eighteen: alone as well."""
        name, me, at = self.heard.speaker, self.me, self.heard.at
        if me.reminded is None:
            self._put(name, me.model_copy(update={"reminded": at}))
        elif (
            name in self.state.minors_alone
            and at - me.reminded >= REMIND_SECONDS
            and not self.setting.paused
            # else everybody is reminded
            and not any(self._minor(p, False) for p in self.setting.people)
        ):
            self._put(name, me.model_copy(update={"reminded": at}))
            self._deliver(name, word("reminder_alone", self._language(name), name=name))

    def _minor(self, name: str, alone: bool = True) -> bool:
        """Whether somebody is under eighteen; ``alone`` counts what was said to the agent alone."""
        known = (*self.state.minors, *(self.state.minors_alone if alone else ()))
        return name in self.setting.minors or name in known

    def _language(self, to: str) -> str:
        if to == self.heard.speaker and self.language != "en":
            return self.language
        return "en"
