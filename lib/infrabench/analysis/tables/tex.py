"""Text as LaTeX: whatever stands in a label is printed as it stands, and a table comes out as booktabs wants it.

Nothing here needs another package than booktabs, and nothing changes what the author's class or fonts do. The signs are
those of the kernel since 2020, with any font encoding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
SIGNS = {sign: f"\\{sign}" for sign in "&%$#_{}"}
SIGNS |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"}
SIGNS |= {"`": r"\textasciigrave{}", "\u00a0": "~", "\u202f": r"\,", "…": r"\ldots{}", "•": r"\textbullet{}"}
SIGNS |= {"‘": r"\textquoteleft{}", "’": r"\textquoteright{}", "“": r"\textquotedblleft{}", "–": "--", "—": "---"}
SIGNS |= {"”": r"\textquotedblright{}", "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "§": r"\S{}"}
SIGNS |= {"µ": r"\textmu{}", "€": r"\texteuro{}", "°": r"\textdegree{}", "½": r"\textonehalf{}"}
MATHS = {"<": "<", ">": ">", "−": "-", "±": r"\pm", "×": r"\times", "·": r"\cdot", "÷": r"\div", "¬": r"\neg"}
MATHS |= {"≤": r"\leq", "≥": r"\geq", "≈": r"\approx", "≠": r"\neq", "≡": r"\equiv", "∞": r"\infty", "√": r"\surd"}
MATHS |= {"←": r"\leftarrow", "→": r"\rightarrow", "↑": r"\uparrow", "↓": r"\downarrow", "↔": r"\leftrightarrow"}
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau",
    "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda",
    "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
MATHS |= {sign: f"\\{name}" for sign, name in GREEK.items()}
SIGNS |= {sign: f"${command}$" for sign, command in MATHS.items()}
ACCENTED = frozenset(map(chr, range(0xC0, 0x100))) - set("×÷ÐðÞþ")  # what the kernel has in every encoding
MINUS = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")  # before a number, but not inside 2026-11 or users-1000
JOINED = r"--+|''+|,,+|<<+|>>+"  # what fonts draw as one sign
TOKEN = re.compile(rf"[{''.join(RAISED)}]+|[{''.join(LOWERED)}]+|{JOINED}|[^\S\u00a0\u202f]+|.", re.DOTALL)


def escaped(text: str) -> str:
    """Return text that LaTeX prints as it stands; a sign that it does not know as its number, ``[U+4E2D]``.

    Any white space, also the end of a line, is one space. Example: ``escaped("5 % of a_b")`` is ``5 \\% of a\\_b``.
    """
    return "".join(_token(part) for part in TOKEN.findall(MINUS.sub("−", text)))


def comment(text: str) -> str:
    """Return text as a comment of one line."""
    return f"% {' '.join(text.split())}".rstrip()


def tabular(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool], caption: str = "") -> str:
    """Return a tabular for the package booktabs; columns of which `left` is true are read from the left.

    `caption` is a comment above it: what stands in a paper is the author's.
    """
    columns = "".join("l" if to_left else "r" for to_left in left)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _row(header), r"\midrule", *map(_row, rows)]
    return "\n".join([*([comment(caption)] if caption else []), *lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _row(cells: Sequence[str]) -> str:
    line = " & ".join(map(escaped, cells))
    # after a rule or a line break, a bracket or an asterisk would be taken for an argument
    return (f"{{{line[0]}}}{line[1:]}" if line[:1] in ("[", "*", "(") else line) + r" \\"


def _token(part: str) -> str:
    if part[0] in RAISED:
        return f"$^{{{''.join(RAISED[sign] for sign in part)}}}$"
    if part[0] in LOWERED:
        return f"$_{{{''.join(LOWERED[sign] for sign in part)}}}$"
    if len(part) > 1 and not part.isspace():
        return "{}".join(map(_token, part))
    if part in SIGNS:
        return SIGNS[part]
    if part.isspace():
        return " "
    if part in ACCENTED or (part.isascii() and part.isprintable()):
        return part
    return f"[U+{ord(part):04X}]"
