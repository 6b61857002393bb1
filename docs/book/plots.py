"""Plots of the book, as SVG, from the tables of docs/benchmarks/: no number is written here.

`scripts/book write` makes them, `scripts/book check` compares them.
"""

import re

COLORS = ["#2f6f9f", "#d98032", "#7a9a3b", "#9a9a9a", "#a0528c"]
WIDTH, LABEL, BAR, GAP = 720, 190, 15, 12


def rows_of(text, begin, *columns):
    """Returns the rows of the first table behind the words `begin` as {first cell: [numbers of the columns]}.

    A cell with several rounds counts as their mean; what is in brackets is left out.
    """
    lines = iter(text[text.index(begin) :].splitlines())
    header = next(line for line in lines if line.startswith("| "))
    names = [cell.strip() for cell in header.strip().strip("|").split("|")]
    places = [names.index(column) if isinstance(column, str) else column for column in columns]
    next(lines)
    table = {}
    for line in lines:
        if not line.startswith("|"):
            return table
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        table[cells[0]] = [mean(cells[place]) for place in places]
    return table


def mean(cell):
    """Returns the mean of the rounds in a cell, which are separated by a comma and a space."""
    rounds = [re.search(r"[\d,.]+", part)[0].replace(",", "") for part in cell.split(", ")]
    return sum(map(float, rounds)) / len(rounds)


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bars(title, note, series, groups):
    """Returns a plot of horizontal bars: `groups` is {name: [value of each series]}; each group has its own scale."""
    height = 64 + 20 * (len(series) > 1)
    parts = []
    y = height
    for name, values in groups.items():
        top = max(values)
        middle = y + len(values) * BAR / 2 + 4
        parts.append(f'<text x="{LABEL - 10}" y="{middle}" text-anchor="end">{escaped(name)}</text>')
        for place, value in enumerate(values):
            length = max(1, (WIDTH - LABEL - 90) * value / top)
            color = COLORS[place % len(COLORS)] if len(series) > 1 else COLORS[0]
            parts.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{color}"/>')
            parts.append(f'<text x="{LABEL + length + 6:.1f}" y="{y + BAR - 4}" class="n">{number(value)}</text>')
            y += BAR
        y += GAP
    legend = []
    x = 16
    for place, name in enumerate(series if len(series) > 1 else []):
        legend.append(f'<rect x="{x}" y="58" width="11" height="11" fill="{COLORS[place % len(COLORS)]}"/>')
        legend.append(f'<text x="{x + 16}" y="68">{escaped(name)}</text>')
        x += 38 + 7.5 * len(name)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}">',
            "<style>text{font:13px sans-serif;fill:#333}.t{font-weight:bold;font-size:15px}.n{font-size:11px}</style>",
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>',
            f'<text x="16" y="26" class="t">{escaped(title)}</text>',
            f'<text x="16" y="46" class="n">{escaped(note)}</text>',
            *legend,
            *parts,
            "</svg>",
        ]
    ) + "\n"


def all_plots(text):
    """Returns {name of a file: SVG}."""
    embedded = rows_of(text, "**surrealmx 1.1 and LMDB", "get", "scan of 100", "70/30", "rmw10")
    works = ["read a row", "scan 100 rows", "70 % reads, 30 % writes", "10 reads and writes"]
    by_work = {work: [values[place] for values in embedded.values()] for place, work in enumerate(works)}

    race = rows_of(text, "**Silo and ERMIA**", 2, 5)
    engines = ["Silo", "ERMIA SI+SSN", "si-ssn, standard rows", "si, standard rows", "silo, standard rows"]
    threads = {
        "1 thread": [race[name][0] for name in engines],
        "2 threads": [race[name][1] for name in engines],
    }

    sql = rows_of(text, "**Lone clients, and rows in order**", 1, 3)
    durable = rows_of(text, "### Throughput", "transactions/s")
    return {
        "embedded.svg": bars(
            "Embedded engines, two threads, nothing synchronized",
            "thousand transactions a second; a scale for each kind of work",
            list(embedded),
            by_work,
        ),
        "tpcc.svg": bars(
            "TPC-C-like mix beside research engines, in memory",
            "thousand transactions a second, medians of four rounds; the release build",
            ["Silo", "ERMIA SI+SSN", "Ermine si-ssn", "Ermine si", "Ermine silo"],
            threads,
        ),
        "sql.svg": bars(
            "pgbench, commits not waited for, serializable unless stated",
            "transactions a second, means of two rounds; a scale for each script",
            ["Ermine", "PostgreSQL 15"],
            {name.replace("the same at", "TPC-B-like,").replace("-like", ""): values for name, values in sql.items()},
        ),
        "durable.svg": bars(
            "The price of a log: TPC-C-like mix, two threads",
            "thousand transactions a second, medians of ten runs",
            ["in memory", "async", "durable, 1024 outstanding", "durable, 256 outstanding"],
            {"si-ssn": [values[0] for values in durable.values()]},
        ),
    }
