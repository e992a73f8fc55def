"""A hostile template ends soon, with an error, whatever it multiplies."""

import time

import jinja2
import pytest

from slipstream.contracts.errors import InvalidRequest
from slipstream.text.sandbox import Budget, Refused, Sandbox, TooCostly
from slipstream.text.template import FAILURES, ChatTemplate

NINES = "{% for i in range(99999) %}"
DOUBLED = (
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = GROW %}{% endfor %}"
)
HOSTILE = {
    "a range without end": "{% for i in range(10**12) %}{% endfor %}",
    "nested loops": f"{NINES}{NINES}{NINES}{{% endfor %}}{{% endfor %}}{{% endfor %}}",
    "an output bomb": f"{NINES}{{{{ 'x' * 99999 }}}}{{% endfor %}}",
    "an output bomb in a macro": f"{{% set s = 'x' * 99999 %}}{{% macro m() %}}{NINES}{{{{ s }}}}"
    "{% endfor %}{% endmacro %}{{ m() }}",
    "an output bomb in a set": f"{{% set s = 'x' * 99999 %}}{{% set y %}}{NINES}{{{{ s }}}}"
    "{% endfor %}{% endset %}",
    "a giant string": "{{ 'x' * 10**10 }}",
    "a giant list": "{{ ([0] * 10**10) | length }}",
    "doubling by plus": DOUBLED.replace("GROW", "ns.x + ns.x"),
    "doubling by tilde": DOUBLED.replace("GROW", "ns.x ~ ns.x"),
    "doubling by join": DOUBLED.replace("GROW", "[ns.x, ns.x] | join"),
    "doubling by a method": DOUBLED.replace("GROW", "''.join([ns.x, ns.x])"),
    "doubling by format": DOUBLED.replace("GROW", "'%s%s' % (ns.x, ns.x)"),
    "doubling by a format method": DOUBLED.replace("GROW", "'{0}{0}'.format(ns.x)"),
    "doubling by replace": DOUBLED.replace("GROW", "ns.x | replace('', ns.x)"),
    "doubling in lists": DOUBLED.replace("GROW", "[ns.x, ns.x]") + "{{ ns.x }}",
    "doubling in objects": DOUBLED.replace("GROW", "{'a': ns.x, 'b': ns.x}")
    + "{{ ns.x | tojson }}",
    "doubling in namespaces": DOUBLED.replace("GROW", "namespace(a=ns.x, b=ns.x)") + "{{ ns.x }}"
    "{{ 1/0 }}",
    "doubling in calls of dict": DOUBLED.replace("GROW", "dict(a=ns.x, b=ns.x)") + "{{ ns.x }}",
    "a giant number": "{{ 9 ** (9 ** 9) }}",
    "squaring": "{% set ns = namespace(n=7) %}{% for i in range(99) %}"
    "{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "padding": "{{ 'x' | center(10000000000) }}",
    "padding by a method": "{{ 'x'.ljust(10000000000) }}",
    "tabs": "{% set s = '\t' * 99999 %}{{ s.expandtabs(9999) }}",
    "indenting": "{% set s = '\n' * 9999999 %}{{ s | indent(9999, true, true) }}",
    "indented JSON": "{{ [1, [2]] | tojson(indent=10000000000) }}",
    "a wide format": "{{ '%9999999999d' % 1 }}",
    "a wide format filter": "{{ '%9999999999d' | format(1) }}",
    "a wide format method": "{{ '{:>9999999999}'.format(1) }}",
    "a wide nested format": "{{ '{:>{}}'.format(1, 10**10) }}",
    "a wide star format": "{{ '%*d' % (10**10, 1) }}",
    "slices": "{{ [1] | slice(10000000000) | list }}",
    "batches": "{{ [1] | batch(10000000000, 0) | list }}",
    "rounding": "{{ 1.5 | round(10000000000, 'floor') }}",
    "translation": "{{ ('x' * 9999999).translate({120: 'y' * 9999999}) }}",
    "bytes": "{{ 'x'.encode().ljust(10000000000) }}",
    "bytes of a number": "{{ (1).to_bytes(10000000000, 'big') }}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a tree of calls": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}"
    "{% endmacro %}{{ m(60) }}",
    "lorem": "{{ lipsum(n=99999) }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.timeout(15)
def test_a_hostile_template_ends_in_an_error(source):
    sandbox = Sandbox()
    template = sandbox.compiled(source)
    began = time.monotonic()
    with pytest.raises(FAILURES):
        sandbox.render(template, {}, Budget(seconds=0.3))
    assert time.monotonic() - began < 5


def test_the_message_says_why_it_was_ended():
    template = ChatTemplate({"default": "{{ 'x' * 10**10 }}"})
    with pytest.raises(InvalidRequest, match="was ended: it builds more than") as refusal:
        template.render([{"role": "user", "content": "hi"}])
    assert refusal.value.param == "messages"


def test_time_is_up_by_the_clock():
    ticks = iter(range(100))
    budget = Budget(seconds=50, clock=lambda: next(ticks))
    sandbox = Sandbox()
    template = sandbox.compiled(f"{NINES}.{{% endfor %}}")
    with pytest.raises(TooCostly, match="more than 50 seconds"):
        sandbox.render(template, {}, budget)


def test_each_rendering_has_its_own_budget():
    sandbox = Sandbox()
    template = sandbox.compiled("{{ 'x' * 600 }}")
    for _ in range(3):
        assert len(sandbox.render(template, {}, Budget(units=2000))) == 600
    with pytest.raises(TooCostly, match="too much work"):
        sandbox.render(template, {}, Budget(units=900))


def test_work_is_what_is_built_not_what_is_there():
    sandbox = Sandbox()
    template = sandbox.compiled("{{ messages[0].content }}{{ messages | length }}")
    text = "x" * 1_000_000
    given = {"messages": [{"content": text}] * 3}
    assert sandbox.render(template, given, Budget(units=1_100_000)) == text + "3"


ORDINARY = {
    "{{ 3 * 'ab' }}{{ 'ab' * 2 }}{{ [1] * 2 }}{{ 2 * 3 }}{{ 2 ** 5 }}": "ababababab[1, 1]632",
    "{{ 1 + 2 }}{{ 'a' + 'b' }}{{ [1] + [2] }}{{ (1,) + (2,) }}": "3ab[1, 2](1, 2)",
    "{{ 7 % 4 }}{{ '%s-%d' % ('a', 3) }}{{ '%(k)s' % {'k': 1} }}{{ '%s' % 'x' }}": "3a-31x",
    "{{ 1 ~ none ~ 'x' }}": "1Nonex",
    "{{ '%s|%s' | format('a', 'b') }}{{ '{} {k}'.format(1, k=2) }}": "a|b1 2",
    "{{ 'a,b'.split(',') | join('-') }}{{ '+'.join(['x', 'y']) }}{{ [] | join(',') }}": "a-bx+y",
    "{{ [{'n': 1}, {'n': 2}] | join(', ', attribute='n') }}": "1, 2",
    "{{ 'aaa' | replace('a', 'b', 2) }}{{ 'aaa'.replace('a', 'c') }}": "bbaccc",
    "{{ 'a'.ljust(3) }}|{{ 'a' | center(3) }}|{{ 'x\ny' | indent(2) }}": "a  | a |x\n  y",
    "{{ 2.5 | round }}{{ 2.567 | round(1) }}": "2.02.6",
    "{{ [1, 2, 3] | batch(2) | list }}": "[[1, 2], [3]]",
    "{{ '{}: 12345'.format(1) }}{{ '%s: 12345' % 1 }}": "1: 123451: 12345",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% else %}none{% endfor %}": "1234",
    "{% for i in [] %}{{ i }}{% else %}none{% endfor %}": "none",
    "{% for i in range(9) if i % 2 %}{{ loop.index }}{{ i }};{% endfor %}": "11;23;35;47;",
    "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}"
    "{% if i == 3 %}{% break %}{% endif %}{% endfor %}": "023",
    "{% for x in [1, [2, [3]]] recursive %}"
    "{{ loop(x) if x is iterable else x }}{% endfor %}": "123",
    "{% generation %}a{{ 1 }}{% endgeneration %}b": "a1b",
    "{{ dict(a=1) }}{{ dict([('b', 2)]) }}": "{'a': 1}{'b': 2}",
    "{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}": "2",
    "{{ {'é': '<b>', 'a': [1, none]} | tojson }}": '{"é": "<b>", "a": [1, null]}',
    "{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}": '{"a":2,"b":1}',
    "{{ 'é' | tojson(ensure_ascii=true) }}": r'"\u00e9"',
    "{% if true %}\n  x\n  {% endif %}\ny": "  x\ny",
    "{{ missing }}{{ missing is defined }}": "False",
}


@pytest.mark.parametrize("source", ORDINARY, ids=range(len(ORDINARY)))
def test_metering_changes_no_result(source):
    sandbox = Sandbox()
    assert sandbox.render(sandbox.compiled(source), {}, Budget()) == ORDINARY[source]


@pytest.mark.parametrize(
    "source",
    ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ messages[0].clear() }}"],
)
def test_a_template_may_only_read_its_data(source):
    sandbox = Sandbox()
    with pytest.raises(jinja2.TemplateError):
        sandbox.render(sandbox.compiled(source), {"messages": [{}]}, Budget())


@pytest.mark.parametrize(
    "source", ["{{ '{0.__class__}'.format('') }}", "{{ raise_exception.__globals__ }}"]
)
def test_what_lies_behind_its_data_is_empty(source):
    sandbox = Sandbox()
    assert sandbox.render(sandbox.compiled(source), {}, Budget()) == ""


def test_a_template_may_say_no():
    sandbox = Sandbox()
    with pytest.raises(Refused, match="not so"):
        sandbox.render(sandbox.compiled("{{ raise_exception('not so') }}"), {}, Budget())
