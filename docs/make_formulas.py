"""docs · formulas: from the lines that stand in the pages as text to MathML, which browsers typeset by themselves.

A page of docs/ shows formulas as indented blocks that read well as they are, `M v̇ = h + Cᵀλ    (3.1)`. When the site is
built (docs/make_hooks.py), such a block becomes MathML: no library, and nothing to be fetched. What is read:

    letters, Greek and Latin, with dots and hats (v̇, D̂); words of two letters and more stay words
    ᵀ ⁻¹ ⁺ ² ' * and ^(…) as superscripts, ₀ ₁ and _i, _{j<i} as subscripts
    a/b without spaces as a fraction, [A B; C D] as a matrix, two or more spaces as a gap, (3.1) at the end as a number
"""

from __future__ import annotations

import re
import unicodedata
from html import escape

NUMBER = re.compile(r"^(.*?)\s{2,}\((\d[a-z]?(?:\.\d+[a-z]?)?)\)$")
BLOCK = re.compile(r"(?:(?<=\n\n)|\A)((?: {4}\S.*\n)+)(?=\n|\Z)")
SYMBOLS = set("ᵀ⁻⁺λΓΦφΨεαω∂ΣΔΛ→←⇔⇒‖⊕½∘ℓσ") | {"\u0307"}
SUPER = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀ'*˙", "0123456789+−T′*·", strict=True))
SUB = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
ACCENTS = {"\u0307": "˙", "\u0302": "^"}
CLOSING = {"(": ")", "[": "]", "{": "}", "‖": "‖"}
PARTIAL = "<mo>∂</mo>"
TOKEN = re.compile(
    r"(?P<word>[A-Za-z]{2,}(?:[–-][A-Za-z]+)*)|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<gap> {2,})|(?P<space> )"
    r"|(?P<letter>[^\W\d_])|(?P<other>.)"
)


def typeset(markdown: str) -> str:
    """The page with its blocks of formulas as MathML; blocks of code stay."""
    return BLOCK.sub(lambda m: formulas(m[1]) if is_formula(m[1]) else m[0], markdown)


def is_formula(block: str) -> bool:
    if any(x in block for x in ('"', "──", "#", "$", "`", "   dalembert ", "da.")):
        return False
    plain = unicodedata.normalize("NFD", block)
    return any(c in SYMBOLS for c in plain) or any(NUMBER.match(line) for line in block.splitlines())


def formulas(block: str) -> str:
    rows = []
    for line in block.rstrip("\n").split("\n"):
        text, number = m.groups() if (m := NUMBER.match(line.strip())) else (line.strip(), "")
        mark = f"<span>({number})</span>" if number else ""
        rows.append(f'<div class="formula"><math displaystyle="true">{mathml(text)}</math>{mark}</div>')
    return "\n".join(rows) + "\n"


def mathml(text: str) -> str:
    """One line of a formula as the inside of a <math> element."""
    return _Reader(unicodedata.normalize("NFD", text)).row(until="")


class _Reader:
    """Reads from left to right; `row` up to a closing sign, `atom` one thing with all that hangs on it."""

    def __init__(self, text: str):
        self.text, self.at = text, 0

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def row(self, until: str) -> str:
        out: list[str] = []
        while self.at < len(self.text) and not (until and self.peek() in until):
            out.append(self.item())
        return "".join(out)

    def item(self) -> str:
        """An atom, or a fraction where a slash stands without spaces: what touches it is above and below the bar."""
        above = [self.atom()]
        if above[0].startswith(("<mspace", "<mtext")) or (above[0].startswith("<mo") and above[0] != PARTIAL):
            return above[0]
        while self.peek() and (self.peek().isalnum() or self.peek() in "(∂‖"):
            above.append(self.atom())
        if self.peek() != "/" or self.peek(1) == " ":
            return "".join(above)
        self.at += 1
        below = [self.atom()]
        if below[0] in (PARTIAL, _id("d")):
            below.append(self.atom())
        return f"<mfrac><mrow>{_bare(''.join(above))}</mrow><mrow>{_bare(''.join(below))}</mrow></mfrac>"

    def atom(self) -> str:
        base = self.base()
        if base.startswith(("<mspace", "<mtext")):
            return base
        if self.peek() in ACCENTS:
            letter, accent = self.text[self.at - 1], self.peek()
            base = f'<mover accent="true">{base}<mo>{ACCENTS[accent]}</mo></mover>'
            if letter.islower():  # here the font has a place for it, and <mover> would set it too low
                base = f"<mi>{_italic(letter)}{accent}</mi>"
            self.at += 1
        below, above = "", ""
        while self.peek():
            if (c := self.peek()) in SUPER and not (c == "*" and self.peek(1) in ("", " ")):
                above, self.at = above + SUPER[c], self.at + 1
            elif c in SUB:
                below, self.at = below + SUB[c], self.at + 1
            elif c in "_^":
                self.at += 1
                if self.peek() in ("{", "("):
                    closing = CLOSING[self.peek()]
                    self.at += 1
                    inside, self.at = self.row(closing), self.at + 1
                elif m := re.match(r"[A-Za-z]{2,}", self.text[self.at :]):  # σ_rank
                    inside, self.at = f"<mtext>{m[0]}</mtext>", self.at + len(m[0])
                else:
                    inside = self.base()
                if c == "_":
                    below += inside
                else:
                    above += inside
            else:
                break
        return _scripts(base, _signs(below), _signs(above))

    def base(self) -> str:
        m = TOKEN.match(self.text, self.at)
        assert m is not None
        found, kind = m[0], m.lastgroup
        self.at = m.end()
        if kind == "gap":
            return '<mspace width="2em"/>'
        if kind == "space":
            return '<mspace width="0.22em"/>'
        if kind == "number":
            return f"<mn>{found}</mn>"
        if kind == "word":
            if found == "dt":
                return f"{_id('d')}{_id('t')}"
            return f"<mi>{found}</mi>" if found in ("sin", "cos", "diag", "min", "max") else self.words(found)
        if kind == "letter":
            return _id(found)
        if found in CLOSING and found != "{":
            return self.group(found)
        return f"<mo>{escape(found)}</mo>"

    def words(self, first: str) -> str:
        """Words that follow each other are one text."""
        m = re.compile(r"(?:,? (?:[A-Za-z]{2,}|a(?= [a-z]{2}))(?![^\s,;.]))*[,:;]?").match(self.text, self.at)
        assert m is not None
        self.at = m.end()
        return f"<mtext>{escape(first + m[0])}</mtext>"

    def group(self, opening: str) -> str:
        closing = CLOSING[opening]
        end = self.end_of(opening, closing)
        if end < 0:
            return f"<mo>{opening}</mo>"
        inside, self.at = self.text[self.at : end], end + 1
        if opening == "[" and ";" in inside:
            rows = [[mathml(cell) for cell in row.split()] for row in inside.split(";")]
            table = "".join(f"<mtr>{''.join(f'<mtd>{x}</mtd>' for x in row)}</mtr>" for row in rows)
            return f"<mrow><mo>[</mo><mtable>{table}</mtable><mo>]</mo></mrow>"
        fence = 'stretchy="false"' if "/" not in inside else ""
        return f"<mrow><mo {fence}>{opening}</mo>{mathml(inside)}<mo {fence}>{closing}</mo></mrow>"

    def end_of(self, opening: str, closing: str) -> int:
        if opening == closing:
            return self.text.find(closing, self.at)
        depth = 1
        for k in range(self.at, len(self.text)):
            depth += (self.text[k] == opening) - (self.text[k] == closing)
            if depth == 0:
                return k
        return -1


def _id(letter: str) -> str:
    upright = ' mathvariant="normal"' if letter in "ΓΦΨΣΔΛ" else ""
    return f"<mi{upright}>{escape(letter)}</mi>"


def _italic(letter: str) -> str:
    """The letter as it looks in <mi> alone, which with an accent would be upright."""
    if letter == "h":
        return "ℎ"
    for first, last, start in (("a", "z", 0x1D44E), ("α", "ω", 0x1D6FC)):
        if first <= letter <= last:
            return chr(start + ord(letter) - ord(first))
    return letter


def _signs(inside: str) -> str:
    """Scripts made of single signs: −1, T, +."""
    return "".join(f"<mn>{x}</mn>" if x.isdigit() else f"<mo>{x}</mo>" for x in inside) if "<" not in inside else inside


def _scripts(base: str, below: str, above: str) -> str:
    below, above = (f"<mrow>{x}</mrow>" if x else "" for x in (below, above))
    if below and above:
        return f"<msubsup>{base}{below}{above}</msubsup>"
    if below:
        return f"<msub>{base}{below}</msub>"
    return f"<msup>{base}{above}</msup>" if above else base


def _bare(inside: str) -> str:
    """Brackets around a whole numerator or denominator go: the bar says it."""
    m = re.fullmatch(r"<mrow><mo [^>]*>\(</mo>(.*)<mo [^>]*>\)</mo></mrow>", inside)
    return m[1] if m and m[1].count(">(</mo>") == m[1].count(">)</mo>") else inside
