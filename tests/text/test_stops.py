"""Stop strings: any cut of a text gives what one look at the whole of it gives."""

from hypothesis import example, given
from hypothesis import strategies as st

from slipstream.text.stops import Stops

letters = st.text("ab", max_size=30)
stop_lists = st.lists(st.text("ab", min_size=1, max_size=6), max_size=16)


def plain(text, stops):
    """The slow twin: str.find over the whole text."""
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return (text[: min(found)], True) if found else (text, False)


def streamed(parts, stops):
    stage = Stops(stops)
    text = "".join([*map(stage.push, parts), stage.flush()])
    return text, stage.matched


@example(["abaa", "b"], ["aab", "baaa"])
@given(st.lists(letters, max_size=12), stop_lists)
def test_any_cut_equals_one_look_at_the_whole(parts, stops):
    assert streamed(parts, stops) == plain("".join(parts), stops)


@given(letters, stop_lists)
def test_only_what_may_begin_a_stop_is_held_back(text, stops):
    stage = Stops(stops)
    shown = "".join(map(stage.push, text))
    held = plain(text, stops)[0][len(shown) :]
    assert not held or any(stop.startswith(text[len(shown) :][: len(stop)]) for stop in stops)


def test_without_stops_nothing_is_held():
    assert Stops([]).push("anything") == "anything"


def test_a_stop_over_several_pieces_never_shows():
    stage = Stops(["\n\nHuman:"])
    assert [stage.push(part) for part in ("Yes.\n", "\nHu", "man", ": no")] == ["Yes.", "", "", ""]
    assert stage.matched


def test_a_false_start_is_released_once_it_fails():
    stage = Stops(["end."])
    assert [stage.push("the en"), stage.push("try")] == ["the ", "entry"]


def test_the_earliest_beginning_wins_even_if_it_ends_later():
    stage = Stops(["bcd", "c"])
    assert stage.push("abc") == "a"
    assert not stage.matched
    assert stage.push("d") == "" and stage.matched


def test_an_earlier_beginning_that_fails_leaves_the_later_match():
    stage = Stops(["bcd", "c"])
    assert stage.push("abc") + stage.push("x") == "ab"
    assert stage.matched


def test_the_end_of_the_text_decides_what_is_still_open():
    stage = Stops(["bcd", "c"])
    assert stage.push("abc") + stage.flush() == "ab"
    assert stage.matched


def test_nothing_comes_after_a_match():
    stage = Stops(["x"])
    assert stage.push("axb") + stage.push("more") + stage.flush() == "a"


@given(st.lists(letters, max_size=12), stop_lists)
def test_the_shortest_of_the_earliest_is_the_one_found(parts, stops):
    text = "".join(parts)
    stage = Stops(stops)
    for part in parts:
        stage.push(part)
    stage.flush()
    places = [(text.find(stop), len(stop), stop) for stop in stops if stop in text]
    assert stage.found == (min(places)[2] if places else "")


def test_a_token_that_does_not_show_may_be_the_stop():
    stage = Stops(["<|end|>", "x"])
    stage.end_with("</s>")
    assert stage.found == ""
    stage.end_with("<|end|>")
    assert (stage.flush(), stage.found, stage.matched) == ("", "<|end|>", False)
