"""edge · the command line's streams: text that any terminal or pipe can show, and streams that are closed."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import sys
import unicodedata

# what this package prints beyond ASCII, in characters that every stream supports
_PLAIN = {
    "−": "-", "–": "-", "—": "-", "…": "...", "·": "*", "×": "x", "→": "->", "←": "<-", "⇒": "=>", "≤": "<=", "≥": ">=",
    "≠": "/=", "≈": "~", "±": "+-", "‖": "||", "√": "sqrt", "°": " deg", "“": '"', "”": '"', "‘": "'", "’": "'",
    "•": "*", "✓": "ok", "✗": "x", "∞": "inf", "∂": "d", "µ": "u", "μ": "mu", "Φ": "Phi", "φ": "phi", "Ψ": "Psi",
    "Γ": "Gamma", "λ": "lambda", "σ": "sigma", "ε": "eps", "ω": "omega", "θ": "theta", "α": "alpha", "β": "beta",
    "π": "pi", "δ": "delta", "Δ": "Delta", "τ": "tau", "ρ": "rho", "━": "-", "╸": "-", "╺": "-", "─": "-", "│": "|",
    "█": "#",
}  # fmt: skip


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Handler of characters that a stream cannot encode: the nearest that it can, or ?."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_plain(c, error.encoding) for c in error.object[error.start : error.end]), error.end


def _plain(character: str, encoding: str) -> str:
    if "\ud800" <= character <= "\udfff":  # a byte of a file name that is no text
        return f"\\x{ord(character) & 0xFF:02x}"
    text = _PLAIN.get(character) or unicodedata.normalize("NFKD", character)
    return text.encode(encoding, "ignore").decode(encoding) or ("" if unicodedata.combining(character) else "?")


codecs.register_error("dalembert-plain", _plainly)


def carry_any_text() -> None:
    """Make stdout and stderr take every text, whatever their encoding (ASCII, Windows pipes, …)."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="dalembert-plain")


def speaks_unicode(stream) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


def finish() -> int:
    """Flush what was printed: 0, or the exit code if that fails."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        return refuse(error)
    return 0


def refuse(error: OSError | ValueError) -> int:
    """Report why a stream failed, and prevent further writes; the exit code. A closed pipe needs no message."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    number = getattr(error, "errno", None)
    if number in (errno.EPIPE, errno.EINVAL):  # EINVAL: a closed pipe on Windows
        return 1
    with contextlib.suppress(OSError, ValueError):
        print(f"dalembert: The output cannot be written: {getattr(error, 'strerror', None) or error}.", file=sys.stderr)
    return 2
