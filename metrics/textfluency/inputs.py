"""Every complaint about input: which argument, which index, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LONGEST_QUOTE = 40  # characters of a wrong value that a message shows


def texts(name: str, values: Any) -> list[str]:
    """The argument as a list of strings; lists, tuples, arrays, Series, columns and generators are welcome.

    >>> texts("predictions", ("One.", "Two."))
    ['One.', 'Two.']
    """
    items = _items(name, values)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise TypeError(f"`{name}[{index}]` must be a string, got {_quote(item)}. {_remedy(item)}")
    return [_without_lone_surrogates(str(item)) for item in items]


def reference_lists(values: Any, count: int) -> list[list[str]]:
    """`references` as one list of strings per prediction; a string stands for a list of one.

    >>> reference_lists(["One.", ["Two.", "2."]], count=2)
    [['One.'], ['Two.', '2.']]
    """
    items = _items("references", values)
    if len(items) != count:
        raise ValueError(
            f"`references` has {len(items)} entries but `predictions` has {count}. "
            "Give one entry per prediction: a string, or a list of strings."
        )
    lists = []
    for index, item in enumerate(items):
        if isinstance(item, str):
            lists.append([_without_lone_surrogates(item)])
            continue
        if not isinstance(item, Iterable) or isinstance(item, bytes | dict):
            raise TypeError(
                f"`references[{index}]` must be a string or a list of strings, got {_quote(item)}. {_remedy(item)}"
            )
        references = texts(f"references[{index}]", item)
        if not references:
            raise ValueError(f"`references[{index}]` is an empty list. Give at least one reference.")
        lists.append(references)
    return lists


def _without_lone_surrogates(text: str) -> str:
    """Half a character, as broken JSON leaves it, cannot be stored or tokenised: it becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _items(name: str, values: Any) -> list[Any]:
    if values is None:
        raise TypeError(f"`{name}` is missing. Pass {name}=[...].")
    if isinstance(values, str | bytes):
        raise TypeError(f"`{name}` must be a list of strings, got a single {type(values).__name__}. Pass [text].")
    if isinstance(values, dict) or not isinstance(values, Iterable):
        raise TypeError(f"`{name}` must be a list of strings, got {_quote(values)}.")
    if getattr(values, "ndim", 1) != 1:
        raise TypeError(f"`{name}` must be one column of strings, got {type(values).__name__}. Choose a column.")
    items = list(values)
    if not items and name == "predictions":
        raise ValueError("`predictions` is an empty list: there is nothing to score.")
    return items


def _quote(value: Any) -> str:
    shown = repr(value)
    if len(shown) > LONGEST_QUOTE:
        shown = shown[: LONGEST_QUOTE - 1] + "…"
    return f"{type(value).__name__} {shown}"


def _remedy(value: Any) -> str:
    if value is None or isinstance(value, float) or type(value).__name__ == "NAType":
        return 'Leave missing texts out, or pass "" for them.'
    if isinstance(value, bytes):
        return "Decode it first: value.decode()."
    return "Convert it first: str(value)."
