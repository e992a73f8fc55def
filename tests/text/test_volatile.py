"""A first system line that differs in every request goes behind the text that does not."""

import pytest

from slipstream.text.volatile import LONGEST, is_volatile, settled

STABLE = "You are a helpful agent.\nBe brief."
BILLING = "x-anthropic-billing-header: cc_version=2.1.37.abc; cc_entrypoint=cli; cch=0f3a1;"
USER = {"role": "user", "content": "hi"}


def system(content, role="system"):
    return [{"role": role, "content": content}, USER]


def moved(content):
    return settled(system(content))[0]["content"]


@pytest.mark.parametrize(
    "line",
    [
        BILLING,
        "Current date and time: 2026-01-31 12:00:00",
        "Current time: 2026-01-31T12:00:00.123Z",
        "The current date and time is Saturday, 31 January 2026, 12:00:00 CET",
        "Today is Sat Jan 31 12:00:00 2026",
        "Timestamp: 1:02:03",
        "[2026-01-31T12:00:00Z]",
        "2026-01-31 12:00:00",
    ],
)
def test_a_line_of_the_moment_goes_to_the_end(line):
    assert moved(f"{line}\n{STABLE}") == f"{STABLE}\n{line}"
    assert moved(f"{line}\n\n{STABLE}") == f"{STABLE}\n{line}"


@pytest.mark.parametrize(
    "line",
    [
        "You are a helpful agent.",
        "Current date: 2026-01-31",  # the same all day
        "Today we talk about the number 12:00.",
        "The meeting of 2026-01-31 12:00:00 is over.",
        "Now that you know that backups, which matter to all of us here, run at 02:00:00, help.",
        BILLING + "x" * LONGEST,
        "",
    ],
)
def test_any_other_line_stays(line):
    assert not is_volatile(line)
    assert moved(f"{line}\n{STABLE}") == f"{line}\n{STABLE}"


def test_two_moments_begin_alike():
    one, two = (moved(f"Current time: 12:00:0{n}\n{STABLE}") for n in (1, 2))
    assert one != two and one.startswith(STABLE) and two.startswith(STABLE)


def test_no_word_is_lost():
    text = f"{BILLING}\n{STABLE}"
    assert sorted(moved(text).split()) == sorted(text.split())


def test_a_line_that_is_all_there_is_stays():
    assert moved(BILLING) == BILLING
    assert moved(BILLING + "\n") == BILLING + "\n"


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (parts(BILLING, STABLE, "More."), parts(STABLE, "More.", f"\n{BILLING}")),
        (parts(f"{BILLING}\n{STABLE}", "More."), parts(STABLE, "More.", f"\n{BILLING}")),
        (parts(STABLE, BILLING), parts(STABLE, BILLING)),
        (parts(BILLING), parts(BILLING)),
        ([{"type": "image"}], [{"type": "image"}]),
    ],
)
def test_a_first_part_is_a_first_line_too(given, expected):
    assert moved(given) == expected


def test_a_developer_is_a_system():
    assert settled(system(f"{BILLING}\nx", role="developer"))[0]["content"] == f"x\n{BILLING}"


@pytest.mark.parametrize("messages", [[], [USER], system(None), [USER, *system(BILLING + "\nx")]])
def test_what_does_not_begin_with_a_system_text_is_untouched(messages):
    assert settled(messages) is messages


def test_the_callers_messages_are_not_written():
    messages = system(f"{BILLING}\nx")
    settled(messages)
    assert messages == system(f"{BILLING}\nx")
