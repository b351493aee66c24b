"""Busy times and free slots of 1,000 random calendars, against recurring-ical-events. Owns what a random calendar is. Needs
WINDLASS_BINARY, beside which the example `slots` of windlass-calendar lies."""

import datetime as dt
import os
import random
import subprocess
import unittest
from pathlib import Path
from zoneinfo import ZoneInfo

import icalendar
import recurring_ical_events

SEED = 20261128
CALENDARS = 1_000
ZONES = ["Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo", "UTC"]
# Around the changes of the clock in both halves of the world, and far from them.
RANGES = ["2026-03-01", "2026-03-20", "2026-04-01", "2026-10-01", "2026-10-20", "2026-11-01", "2026-07-04", "2028-02-20"]
DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def some(source, values, most):
    return ",".join(str(value) for value in source.sample(values, source.randint(1, most)))


def rule(source, start):
    """A rule as RFC 5545 allows it."""
    frequency = source.choice(["YEARLY", "MONTHLY", "MONTHLY", "WEEKLY", "WEEKLY", "WEEKLY", "WEEKLY", "DAILY", "DAILY", "DAILY", "HOURLY", "MINUTELY"])
    parts = [f"FREQ={frequency}"]
    # The other library refuses hours that an interval never reaches.
    interval = {"HOURLY": 1, "MINUTELY": source.choice([45, 90, 137, 1440])}.get(frequency, source.choice([1, 1, 1, 2, 3, 5]))
    if interval > 1:
        parts.append(f"INTERVAL={interval}")
    if source.random() < 0.25:
        parts.append(f"WKST={source.choice(DAYS)}")
    ordinals = [f"{number}{day}" for number in (1, 2, 3, 4, -1, -2) for day in DAYS]
    if frequency == "YEARLY":
        parts += source.choice([
            lambda: [],
            lambda: [f"BYMONTH={some(source, range(1, 13), 3)}"],
            lambda: [f"BYMONTH={some(source, range(1, 13), 3)}", f"BYDAY={some(source, ordinals, 3)}"],
            lambda: [f"BYDAY={some(source, ordinals + ['20MO', '-10FR'], 3)}"],
            lambda: [f"BYYEARDAY={some(source, list(range(1, 367)) + [-1, -100, -366], 4)}"],
            lambda: [f"BYWEEKNO={some(source, list(range(1, 54)) + [-1, -2], 4)}", f"BYDAY={some(source, DAYS, 3)}"],
            lambda: [f"BYMONTH={some(source, range(1, 13), 4)}", f"BYMONTHDAY={some(source, list(range(1, 32)) + [-1, -3], 3)}"],
            lambda: [f"BYDAY={some(source, DAYS, 3)}", f"BYSETPOS={some(source, [1, 2, 50, -1, -20], 2)}"],
        ])()
    elif frequency == "MONTHLY":
        parts += source.choice([
            lambda: [],
            lambda: [f"BYMONTHDAY={some(source, list(range(1, 32)) + [-1, -2, -31], 4)}"],
            lambda: [f"BYDAY={some(source, ordinals, 3)}"],
            lambda: [f"BYDAY={some(source, DAYS, 5)}", f"BYSETPOS={some(source, [1, 2, 3, -1, -2], 2)}"],
            lambda: ["BYDAY=FR", "BYMONTHDAY=13"],
            lambda: [f"BYDAY={some(source, DAYS, 2)}", f"BYHOUR={some(source, range(24), 3)}", "BYSETPOS=2,-1"],
        ])()
    elif frequency == "WEEKLY":
        parts += source.choice([lambda: [], lambda: [f"BYDAY={some(source, DAYS, 5)}"],
                                lambda: [f"BYDAY={some(source, DAYS, 3)}", f"BYMONTH={some(source, range(1, 13), 6)}"]])()
    elif frequency == "DAILY":
        parts += source.choice([lambda: [], lambda: [f"BYMONTH={some(source, range(1, 13), 6)}"],
                                lambda: [f"BYHOUR={some(source, range(24), 3)}", f"BYMINUTE={some(source, [0, 15, 30], 2)}"],
                                lambda: [f"BYDAY={some(source, DAYS, 4)}"]])()
    elif frequency == "HOURLY":
        parts += source.choice([lambda: [f"BYHOUR={some(source, range(24), 5)}"], lambda: [f"BYDAY={some(source, DAYS, 2)}"]])()
    end = source.random()
    if end < 0.3:
        parts.append(f"COUNT={source.randint(1, 200)}")
    elif end < 0.6:
        until = start + dt.timedelta(days=source.randint(1, 1500), hours=source.randint(0, 23))
        parts.append("UNTIL=" + until.strftime("%Y%m%dT%H%M%SZ"))
    return ";".join(parts)


def event(source, number, begin):
    """The lines of an event, with those of its instances."""
    is_day = source.random() < 0.15
    zone = source.choice(ZONES)
    start = begin + dt.timedelta(days=source.choice([source.randint(-700, 0), source.randint(-90, 30), source.randint(-10, 30)]), hours=source.randint(0, 23), minutes=source.choice([0, 15, 30, 50]))
    if source.random() < 0.4:
        start = start.replace(hour=source.choice([0, 1, 2, 3]))
    naive = start.replace(tzinfo=None)
    kind = "day" if is_day else source.choice(["zone", "zone", "zone", "utc", "floating"])

    def written(name, moment):
        if kind == "day":
            return f"{name};VALUE=DATE:{moment:%Y%m%d}"
        if kind == "zone":
            return f"{name};TZID={zone}:{moment:%Y%m%dT%H%M%S}"
        return f"{name}:{moment:%Y%m%dT%H%M%S}" + ("Z" if kind == "utc" else "")

    length = dt.timedelta(days=source.randint(1, 4)) if is_day else dt.timedelta(minutes=source.choice([15, 30, 60, 90, 480, 1500, 4000]))
    common = [f"UID:{number}@test", "DTSTAMP:20260101T000000Z"]
    if source.random() < 0.1:
        common.append("TRANSP:TRANSPARENT")
    if source.random() < 0.1:
        common.append(f"STATUS:{source.choice(['CANCELLED', 'TENTATIVE', 'CONFIRMED'])}")
    lines = common + [written("DTSTART", naive), written("DTEND", naive + length)]
    blocks = [lines]
    if source.random() < 0.65:
        # In files, `UNTIL` of whole days is a date, and that of times without zone has none.
        text = rule(source, start)
        while is_day and any(part in text for part in ("HOURLY", "MINUTELY", "BYHOUR")):
            text = rule(source, start)
        if "UNTIL=" in text and kind in ("day", "floating"):
            text = ";".join(part for part in text.split(";") if not part.startswith("UNTIL="))
        lines.append(f"RRULE:{text}")
        lines.append("SEQUENCE:1")
        days = source.sample(range(1, 40), 3)
        if source.random() < 0.3:
            lines.append(written("RDATE", naive + dt.timedelta(days=days[0], hours=0 if is_day else 5)))
        if source.random() < 0.4:
            lines.append(written("EXDATE", naive + dt.timedelta(days=7 * source.randint(0, 60))))
        if source.random() < 0.4 and "DAILY" in text and "BY" not in text and "INTERVAL" not in text:
            of = naive + dt.timedelta(days=source.randint(0, 60))
            moved = of + dt.timedelta(days=source.randint(-2, 2), hours=0 if is_day else source.randint(-5, 5))
            blocks.append(common + [written("RECURRENCE-ID", of), written("DTSTART", moved), written("DTEND", moved + length), "SEQUENCE:1"])
    return [line for block in blocks for line in ["BEGIN:VEVENT", *block, "END:VEVENT"]]


def calendar(source):
    """A calendar's text, and the range to look at in its zone."""
    begin = dt.datetime.fromisoformat(source.choice(RANGES)).replace(tzinfo=dt.timezone.utc)
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:test"]
    for number in range(source.randint(1, 7)):
        lines += event(source, number, begin)
    text = "\r\n".join([*lines, "END:VCALENDAR", ""])
    return text, begin, begin + dt.timedelta(days=source.randint(1, 31)), source.choice(ZONES), source.choice([15, 30, 60, 240])


def expected(text, begin, end, zone, minutes):
    """What the other library says, as the example writes it."""
    zone = ZoneInfo(zone)

    def instant(moment):
        if not isinstance(moment, dt.datetime):
            moment = dt.datetime(moment.year, moment.month, moment.day)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return int(moment.timestamp())

    # A day on both sides: floating times are looked up by another clock.
    day = dt.timedelta(days=1)
    spans = []
    for found in recurring_ical_events.of(icalendar.Calendar.from_ical(text)).between(begin - day, end + day):
        if found.get("TRANSP") == "TRANSPARENT" or found.get("STATUS") == "CANCELLED":
            continue
        spans.append((instant(found["DTSTART"].dt), instant(found["DTEND"].dt)))
    low, high = int(begin.timestamp()), int(end.timestamp())
    busy = []
    for start, stop in sorted((max(start, low), min(stop, high)) for start, stop in spans):
        if start >= stop:
            continue
        if busy and start <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], stop)
        else:
            busy.append([start, stop])
    edges = [low, *(edge for span in busy for edge in span), high]
    free = [(start, stop) for start, stop in zip(edges[::2], edges[1::2]) if stop - start >= minutes * 60 and stop > start]
    shown = lambda spans: " ".join(f"{start}-{stop}" for start, stop in spans)
    return f"{shown(busy)} | {shown(free)}"


class Calendars(unittest.TestCase):
    def test_slots_are_those_of_recurring_ical_events(self):
        program = Path(os.environ["WINDLASS_BINARY"]).parent / "examples" / "slots"
        source = random.Random(SEED)
        busy = 0
        with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
            for number in range(CALENDARS):
                text, begin, end, zone, minutes = calendar(source)
                content = text.encode()
                written = [moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (begin, end)]
                running.stdin.write(f"{' '.join(written)} {zone} {minutes} {len(content)}\n".encode() + content)
                running.stdin.flush()
                answer = running.stdout.readline().decode().rstrip("\n")
                wanted = expected(text, begin, end, zone, minutes)
                busy += not wanted.startswith(" |")
                with self.subTest(calendar=number):
                    self.assertEqual(answer, wanted, f"{zone} {written}\n{text}")
            running.stdin.close()
        # Calendars without a busy time in the range would show nothing.
        self.assertGreater(busy, CALENDARS * 0.6)


if __name__ == "__main__":
    unittest.main()
