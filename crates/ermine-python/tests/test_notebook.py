"""The notebook of the examples: its cells run in order, and show what is stored as their results."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[3] / "examples/notebook/ledger.ipynb"


def run(source: str, names: dict[str, Any]) -> str | None:
    """Runs a cell; returns how a notebook shows the value of its last line, if that is an expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return None if value is None else repr(value)


def test_cells_show_their_results() -> None:
    names: dict[str, Any] = {}
    shown = 0
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            stored = ["".join(output["data"]["text/plain"]) for output in cell["outputs"]]
            result = run("".join(cell["source"]), names)
            assert ([] if result is None else [result]) == stored
            shown += len(stored)
    assert shown == 4
