"""Values that have no class of their own in Python."""

from __future__ import annotations

from typing import Any


class Json:
    """A parameter that is JSON, where that is not clear: `Json("text")` is a JSON string, and `Json(None)` is null.

    A `dict` is JSON without it, and so is a `list` or a number for a parameter of the type `json` or `jsonb`. A `str`
    is otherwise read as the text of a JSON value.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Json({self.value!r})"
