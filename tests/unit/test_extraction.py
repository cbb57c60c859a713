"""Which code in an answer is the answer: the rules one by one, and that no text breaks them."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddqueue.domain.code_blocks import PythonReader, defined_names
from ddqueue.domain.coding import Outcome
from ddqueue.domain.extraction import Extraction, ExtractionRule, extract

RIGHT = "def f(x):\n    return x + 1"
DRAFT = "def f(x):\n    return x"
OTHER = "def helper(x):\n    return x"


def of(content: str | None, finish_reason: str | None = "stop", reasoning: str | None = None) -> Extraction:
    return extract(content, reasoning, finish_reason, "f")


def fenced(code: str, tag: str = "python", mark: str = "```") -> str:
    return f"{mark}{tag}\n{code}\n{mark}\n"


def found(code: str, rule: ExtractionRule = ExtractionRule.FENCE, truncated: bool = False) -> Extraction:
    return Extraction(code, rule, truncated)


def none(rule: ExtractionRule, truncated: bool = False, outcome: Outcome = Outcome.NO_ANSWER) -> Extraction:
    return Extraction(None, rule, truncated, outcome)


NO_CODE = none(ExtractionRule.NO_DEFINITION, outcome=Outcome.NO_CODE)


@pytest.mark.parametrize(
    "reasoning",
    [
        f"Maybe: {DRAFT} ... </think>",
        f"<think>Maybe\n{fenced(DRAFT)}</think>",
        f"<think>one</think>{fenced(DRAFT)}<think>two</think>",
        f"<think>\n```python\n{DRAFT}\n</think>\n",
        f"◁think▷{fenced(DRAFT)}◁/think▷",
        "</think>",
    ],
)
def test_everything_up_to_the_last_end_of_reasoning_is_dropped(reasoning: str) -> None:
    assert of(f"{reasoning}\n\nHere:\n{fenced(RIGHT)}") == found(RIGHT)
    assert of(f"{reasoning}\n{RIGHT}\n") == found(RIGHT, ExtractionRule.WHOLE)


@pytest.mark.parametrize(
    "content",
    [
        f"<think>Maybe:\n{fenced(RIGHT)}",
        f"<think>{RIGHT}",
        f"  <think>\n{RIGHT}\n```\n",
        f"Well, <think> let me see\n{fenced(RIGHT)}Yes.",
        f"<think>done</think>\n<think>{fenced(RIGHT)}",
        f"◁think▷{fenced(RIGHT)}",
    ],
)
def test_reasoning_that_never_ends_is_no_answer_and_no_code(content: str) -> None:
    for finish_reason in ("length", "stop", None):
        assert of(content, finish_reason) == none(ExtractionRule.UNCLOSED_REASONING, truncated=True)


def test_an_answer_that_is_thought_over_again_stays() -> None:
    assert of(f"{fenced(RIGHT)}\n<think>Wait.\n{fenced(DRAFT)}") == found(RIGHT, truncated=True)


def test_a_tag_that_is_part_of_the_code_or_named_in_prose_is_no_reasoning() -> None:
    code = 'def f(x):\n    return x.removeprefix("<think>")'
    assert of(f"It takes the `<think>` away.\n{fenced(code)}") == found(code)


@pytest.mark.parametrize(
    ("content", "reasoning", "rule"),
    [
        (None, "long " * 500, ExtractionRule.ONLY_REASONING),
        ("", f"{fenced(RIGHT)}", ExtractionRule.ONLY_REASONING),
        (" \n\t", "hm", ExtractionRule.ONLY_REASONING),
        (f"<think>{fenced(RIGHT)}</think>\n", None, ExtractionRule.ONLY_REASONING),
        (None, None, ExtractionRule.NOTHING),
        ("\r\n", "  ", ExtractionRule.NOTHING),
    ],
)
@pytest.mark.parametrize("finish_reason", ["length", "stop", None])
def test_nothing_after_the_reasoning(
    content: str | None, reasoning: str | None, rule: ExtractionRule, finish_reason: str | None
) -> None:
    assert of(content, finish_reason, reasoning) == none(rule, truncated=finish_reason == "length")


def test_an_answer_cut_off_or_ended_before_any_code_is_none_but_a_long_one_without_code_is_wrong() -> None:
    assert of("I would begin by", "length") == none(ExtractionRule.CUT_OFF, truncated=True)
    assert of("```python\ndef f(x):\n    return (x +", "length") == none(ExtractionRule.CUT_OFF, truncated=True)
    assert of("Let me see how this can be", "stop") == none(ExtractionRule.STOPPED_SHORT)
    assert of("word " * 19) == none(ExtractionRule.STOPPED_SHORT)
    assert of("word " * 20) == NO_CODE
    assert of("def f(x: return x") == NO_CODE


def test_bare_code_and_a_lone_closing_fence() -> None:
    assert of(f"{RIGHT}\n```") == found(RIGHT, ExtractionRule.CLOSING_FENCE)
    assert of(f"{RIGHT}\n\n```\nThat is all.") == found(RIGHT, ExtractionRule.CLOSING_FENCE)
    assert of(f"Here it is:\n\n{RIGHT}\n```\n\nRun it:\n{fenced('python f.py', 'sh')}") == found(
        RIGHT, ExtractionRule.CLOSING_FENCE
    )


def test_an_opening_fence_without_an_end() -> None:
    assert of(f"Sure.\n```python\n{RIGHT}") == found(RIGHT, ExtractionRule.OPEN_FENCE, truncated=True)
    assert of(f"Sure.\n```\n{RIGHT}\n\n", "length") == found(RIGHT, ExtractionRule.OPEN_FENCE, truncated=True)
    assert of(f"{fenced(DRAFT)}Better:\n```python\n{RIGHT}") == found(RIGHT, ExtractionRule.OPEN_FENCE, truncated=True)


def test_bare_code_without_any_fence() -> None:
    imports = "import math\n# the root\nROOT = math.sqrt(2)\n\n\n@staticmethod\ndef f(x):\n    return ROOT\n"
    assert of(imports) == found(imports.strip(), ExtractionRule.WHOLE)
    prose = f"Sure\n\nHere is the function:\n\n{imports}\nThis works, as f(1) shows.\n"
    assert of(prose) == found(imports.strip(), ExtractionRule.BARE)
    branches = "def f(x):\n    return x\n\nif True:\n    f(1)\nelse:\n    f(2)\nlast = [\n    1,\n]"
    assert of(f"Note: read this\n{branches}\nDone") == found(branches, ExtractionRule.BARE)
    assert of(f"A draft:\n{DRAFT}\nThat is not right. So:\n{RIGHT}\nDone.") == found(RIGHT, ExtractionRule.BARE)


def test_the_last_python_block_that_defines_the_function() -> None:
    answer = (
        f"A draft:\n{fenced(DRAFT)}\nCorrected:\n{fenced(RIGHT)}\n{fenced('O(n) time', '')}\n"
        f"{fenced('pip install numpy', 'bash')}\n{fenced(OTHER)}\n{fenced('f(1)')}"
    )
    assert of(answer) == found(RIGHT)
    assert of(answer, "length") == found(RIGHT, truncated=True)


def test_blocks_are_never_joined() -> None:
    halves = fenced("import math") + "then\n" + fenced("def f(x):") + "and\n" + fenced("    return math.sqrt(x)")
    assert of(halves) == NO_CODE
    second = "def f(x):\n    return math.sqrt(x)"
    assert of(fenced("import math") + "then\n" + fenced(second)) == found(second)
    half = fenced('def f(x):\n    """half')
    broken = f"{half}oops\n{half}oops\n{fenced(RIGHT)}"
    assert of(broken) == found(RIGHT)


@pytest.mark.parametrize(
    "tag", ["python", "py", "python3", "Python", "", "python3.11", "{.python}", "solution.py", "python title=a"]
)
def test_every_way_to_tag_python(tag: str) -> None:
    assert of(f"Draft:\n{fenced(DRAFT)}\nFinal:\n{fenced(RIGHT, tag)}") == found(RIGHT)


def test_another_tag_counts_only_if_nothing_else_does() -> None:
    assert of(fenced(RIGHT, "text")) == found(RIGHT, ExtractionRule.OTHER_FENCE)
    assert of(fenced(RIGHT) + fenced(DRAFT, "pseudocode")) == found(RIGHT)


def test_other_fences() -> None:
    assert of(f"So:\n{fenced(RIGHT, mark='~~~')}") == found(RIGHT)
    assert of(f"So:\n{fenced(RIGHT, mark='`````')}") == found(RIGHT)
    assert of(f"1. So:\n\n   ```python\n   {RIGHT.replace(chr(10), chr(10) + '   ')}\n   ```\n") == found(RIGHT)
    assert of("So:\n```python\n    def f(x):\n        return x + 1\n```") == found(RIGHT)
    assert of(f"So:\r\n{fenced(RIGHT)}".replace("\n", "\r\n")) == found(RIGHT)
    assert of(f"So:\n```python\n{DRAFT}\n```python\n{RIGHT}\n```") == found(RIGHT)
    assert of(f"So:\n```python\n{RIGHT}\n``` This is all.\n") == found(RIGHT)
    assert of(f"\ufeff{RIGHT}") == found(RIGHT, ExtractionRule.WHOLE)


@pytest.mark.parametrize("mark", ["```", "    ```", "```python"])
def test_a_fence_inside_a_docstring_does_not_end_the_block(mark: str) -> None:
    code = f'def f(x):\n    """Add one.\n\n{mark}\n    >>> f(1)\n    ```\n    """\n    return x + 1'
    assert of(f"So:\n{fenced(code)}\nDone.") == found(code)
    assert of(f"So:\n```python\n{code}") == found(code, ExtractionRule.OPEN_FENCE, truncated=True)
    assert of(f"So:\n{fenced(code)}\nBetter:\n{fenced(RIGHT)}") == found(RIGHT)
    assert of(f"So:\n{fenced(DRAFT)}\nBetter:\n{fenced(code)}\n{fenced('O(n)', '')}") == found(code)


@pytest.mark.parametrize(
    "code",
    [
        "async def f(x):\n    return x",
        "from functools import cache\n\n\n@cache\ndef f(x):\n    return x",
        "f = lambda x: x",
        "f: object = lambda x: x",
        "g = f = len",
        "f, g = len, max",
        "class f:\n    pass",
        'def f(x):\n    return "\\d"',
    ],
)
def test_what_defines_a_function(code: str) -> None:
    assert of(f"So:\n{fenced(code)}") == found(code)


@pytest.mark.parametrize(
    "code",
    [
        "class Solution:\n    def f(self, x):\n        return x",
        "def g():\n    def f(x):\n        return x",
        "from functools import reduce as f",
        "f: int",
        "f(1)",
        "def f2(x):\n    return x",
        "def f(x):\nreturn x",
    ],
)
def test_what_does_not(code: str) -> None:
    assert of(f"So:\n{fenced(code)}") == NO_CODE


def test_what_the_store_replaces_is_replaced_first() -> None:
    code = 'def f(x):\n    return "\0\ud800"'
    assert of(f"So:\n{fenced(code)}") == found('def f(x):\n    return "\ufffd\ufffd"')


@pytest.mark.parametrize(
    "text",
    [
        *("```\n" * 100_000, "~~~\n````\n" * 50_000, '```python\nx = """\n' * 20_000, '```py\n"""\n' * 40_000),
        *("(" * 400_000, "f = " + "1+" * 190_000 + "1", "f = " + "-" * 400_000, "f = " + "{" * 300_000),
        *("a\n" * 200_000, "def g(): pass\n" * 30_000, "a" * 2_000_000, "<think>" * 100_000, "</think>" * 100_000),
    ],
)
def test_a_search_through_the_largest_answers_ends(text: str) -> None:
    # A quadratic search would take hours: the suite itself would not end.
    assert of(text).code is None


def test_the_parser_has_a_budget() -> None:
    reader = PythonReader()
    long_string = f"x = '{'a' * 600_000}'"
    assert [reader.read(long_string).tree is not None for _ in range(4)] == [True, True, True, False]
    assert reader.read("x = 1").tree is None


def test_of_a_gigantic_answer_the_end_counts() -> None:
    assert of("prose " * 100_000 + f"\n{fenced(DRAFT)}" + "word\n" * 1000 + fenced(RIGHT)) == found(RIGHT)


SCRAPS = st.sampled_from(
    [
        *(
            "```",
            "```python",
            "```py\n",
            "~~~",
            "    ```",
            "````",
            "<think>",
            "</think>",
            "`",
            '"""',
            "'''",
            "\0",
            "\ud800",
        ),
        *(
            RIGHT,
            DRAFT,
            OTHER,
            "def f(x):",
            "    return x",
            "async def f(): ...",
            "f = 1",
            "class f: pass",
            "f(1)",
            "#",
        ),
        *(
            "    ",
            "\t",
            "\n",
            "\n",
            "\n",
            "\r\n",
            "\\",
            "Sure, here it is:",
            "Note: x",
            "@",
            "else:",
            ")",
            "(",
            "\ufeff",
        ),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(SCRAPS, st.text(max_size=5)), max_size=25).map("".join))


@settings(max_examples=300, deadline=None)
@given(
    content=st.one_of(st.none(), TEXTS),
    reasoning=st.one_of(st.none(), TEXTS),
    finish=st.sampled_from(["stop", "length", None]),
)
def test_any_text_gives_code_that_defines_the_function_or_a_reason(
    content: str | None, reasoning: str | None, finish: str | None
) -> None:
    one = extract(content, reasoning, finish, "f")
    if one.code is None:
        assert one.outcome_if_none in (Outcome.NO_CODE, Outcome.NO_ANSWER)
        return
    assert one.outcome_if_none is None
    assert "f" in defined_names(ast.parse(one.code))
    assert extract(one.code, None, "stop", "f") == found(one.code, ExtractionRule.WHOLE)


@settings(max_examples=100, deadline=None)
@given(before=TEXTS, code=st.sampled_from([RIGHT, DRAFT, "f = abs"]))
def test_what_was_reasoned_before_never_matters(before: str, code: str) -> None:
    assert of(f"{before}</think>\n{fenced(code)}") == found(code)
