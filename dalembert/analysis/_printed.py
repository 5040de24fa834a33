"""7 · analysis: `Printed`: results that print themselves, in the words of `reports`."""

from __future__ import annotations


class Printed:
    """A result that prints itself: whole by `print`, its summary at a prompt, as a table in a notebook. It gives
    `__rich__`, what is shown at a terminal."""

    def summary(self) -> str:
        """In a few lines; here whole."""
        return str(self)

    def __str__(self) -> str:
        return reports().plain(self)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from dalembert.view import html_console

        return html_console(self)


def reports():
    """The room that puts results into words: the one import of this room that runs upward, so that it prints."""
    from dalembert import reports

    return reports
