"""What a paper takes from a session: numbers and captions as LaTeX commands, the same as JSON, the table of ratios."""

from __future__ import annotations

import json
from pathlib import Path

from infrabench.analysis import tables
from infrabench.analysis.figures import pairs
from infrabench.analysis.results import Results, base, chosen
from infrabench.analysis.tables import notation
from infrabench.core.names import file_name
from infrabench.publish import latex_commands
from infrabench.publish.latex_commands import Number


def write(found: Results, folder: Path, figures: Path | None = None, prefix: str = "") -> list[Path]:
    """Write ``numbers-NAME.tex``, ``numbers-NAME.json`` and ``ratios-NAME.tex`` into `folder` and return the paths.

    NAME is the study, or the prefix. The ratios are those of the primary metrics, as wide as a page.

    Parameters
    ----------
    figures
        Folder of saved figures. The caption of each figure of this session is a command as well, for it has numbers
        in it: ``\\containersForestCaption``.
    prefix
        First letters of every command instead of the study's.

    Raises
    ------
    DesignError
        As of `latex_commands.numbers`.
    """
    name, session = file_name(prefix or found.name), " and ".join(latex_commands.sessions(found))
    made = [*latex_commands.numbers(found, prefix), *_captions(found, figures, prefix)]
    head = f"Numbers of session {session}: {found.data['title']}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"numbers-{name}.tex", folder / f"numbers-{name}.json"]
    paths[0].write_text(latex_commands.commands(made, head), encoding="utf-8")
    paths[1].write_text(_json(made, session, found), encoding="utf-8")
    rows = chosen(found)
    if len(rows):
        paths.append(folder / f"ratios-{name}.tex")
        table = tables.ratios_table(rows, found.systems)
        paths[2].write_text(notation.latex(table, f"{session}: {ratios_caption(found)}"), encoding="utf-8")
    return paths


def ratios_caption(found: Results) -> str:
    """Return the caption of the table of ratios: what they are, over how many pairs, what its signs mean."""
    rows = chosen(found)
    margins = " and ".join(f"{100 * margin:g} %" for margin in sorted(rows["margin"].dropna().unique()))
    return (
        f"Ratio of means to {found.data['baseline']} with its paired 95 % Fieller interval over {pairs(rows)}. "
        f"{tables.describe_signs(rows)} (margin {margins}). The arrow shows which direction is better. {base(found)}"
    ).strip()


def _captions(found: Results, figures: Path | None, prefix: str) -> list[Number]:
    """Return the captions of the table and of the saved figures of this session and view, by the figures' names."""
    made: list[Number] = []
    session, start = " and ".join(latex_commands.sessions(found)), latex_commands.first(found, prefix)
    if len(chosen(found)):
        about = f"{session}: caption of the table of ratios"
        made.append(Number(f"{start}RatiosCaption", ratios_caption(found), about))
    for path in sorted((figures / found.name).glob("*.json")) if figures else ():
        car = json.loads(path.read_text(encoding="utf-8"))
        if car["data"]["sessions"] == latex_commands.sessions(found):
            name = f"{start}{latex_commands.letters(car['figure'])}Caption"
            made.append(Number(name, car["caption"], f"{session}: caption of the figure {car['figure']}"))
    return made


def _json(made: list[Number], session: str, found: Results) -> str:
    keys = ("text", "value", "low", "high", "unit", "about")
    numbers = {each.name: {key: getattr(each, key) for key in keys} for each in made}
    data = {"session": session, "study": found.data["study"], "numbers": numbers}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
