"""A first system line that differs in every request goes behind the text that does not."""

import pytest

from slipstream.text.volatile import LONGEST, is_volatile, settled

NOW = "Current time: 12:00:00"
STABLE = "You are a helpful agent.\nBe brief."
BILLING = "x-anthropic-billing-header: cc_version=2.1.37.abc; cc_entrypoint=cli; cch=0f3a1;"
USER = {"role": "user", "content": "hi"}


def system(content, role="system"):
    return [{"role": role, "content": content}, USER]


def moved(content):
    return settled(system(content))[0][0]["content"]


def without(content):
    """The messages without the client's line."""
    messages, names = settled(system(content))
    assert names == ("x-anthropic-billing-header",)
    return messages


@pytest.mark.parametrize(
    "line",
    [
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
        NOW + "." * LONGEST,
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
    text = f"{NOW}\n{STABLE}"
    assert sorted(moved(text).split()) == sorted(text.split())


def test_a_line_that_is_all_there_is_stays():
    assert moved(NOW) == NOW
    assert moved(NOW + "\n") == NOW + "\n"


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (parts(NOW, STABLE, "More."), parts(STABLE, "More.", f"\n{NOW}")),
        (parts(f"{NOW}\n{STABLE}", "More."), parts(STABLE, "More.", f"\n{NOW}")),
        (parts(STABLE, NOW), parts(STABLE, NOW)),
        (parts(NOW), parts(NOW)),
        ([{"type": "image"}], [{"type": "image"}]),
    ],
)
def test_a_first_part_is_a_first_line_too(given, expected):
    assert moved(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (f"{BILLING}\n{STABLE}", STABLE),
        (f"{BILLING}\r\n\n{STABLE}", STABLE),
        (f"{BILLING}{'x' * LONGEST}\n{STABLE}", STABLE),
        (f"{BILLING}\n{NOW}\n{STABLE}", f"{STABLE}\n{NOW}"),
        (parts(BILLING, STABLE, "More."), parts(STABLE, "More.")),
        (parts(f"{BILLING}\n{STABLE}", "More."), parts(STABLE, "More.")),
        (parts(STABLE, BILLING), parts(STABLE)),
        (parts(BILLING, NOW, STABLE), parts(STABLE, f"\n{NOW}")),
    ],
)
def test_a_line_for_the_clients_own_servers_is_left_out_and_named(given, expected):
    assert without(given)[0] == {"role": "system", "content": expected}


@pytest.mark.parametrize("content", [BILLING, BILLING + "\n", parts(BILLING)])
def test_a_system_message_of_nothing_else_goes_with_it(content):
    assert without(content) == [USER]


def test_a_request_of_nothing_else_is_an_empty_system():
    only = system(BILLING)[:1]
    assert settled(only)[0] == [{"role": "system", "content": ""}]


@pytest.mark.parametrize("text", [f"Send {BILLING}", f"{STABLE}\n{BILLING}\nend"])
def test_what_only_speaks_of_that_line_stays(text):
    assert settled(system(text)) == (system(text), ())


def test_turns_of_two_requests_are_alike_from_beginning_to_end():
    one, two = (settled(system(f"{BILLING}{n}\n{STABLE}"))[0] for n in (1, 2))
    assert one == two


def test_a_developer_is_a_system():
    assert settled(system(f"{NOW}\nx", role="developer"))[0][0]["content"] == f"x\n{NOW}"


@pytest.mark.parametrize("messages", [[], [USER], system(None), [USER, *system(NOW + "\nx")]])
def test_what_does_not_begin_with_a_system_text_is_untouched(messages):
    assert settled(messages) == (messages, ())


def test_the_callers_messages_are_not_written():
    messages = system(f"{NOW}\nx")
    settled(messages)
    assert messages == system(f"{NOW}\nx")
