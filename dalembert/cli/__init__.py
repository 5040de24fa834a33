"""edge · the command line: list, check, statics, modes, assembly, run, kinematics, study, view, report, compare, …"""

from dalembert.cli._app import _command, app, main
from dalembert.cli._files import convert, list_, new, schema
from dalembert.cli._kinematics import kinematics
from dalembert.cli._models import _changed
from dalembert.cli._pages import report, view
from dalembert.cli._questions import assembly, check, modes, statics
from dalembert.cli._run import compare, demo, run
from dalembert.cli._studies import resume, status, study

__all__ = ["_changed", "_command", "app", "main", "view"]

# in the order in which the help lists them
app.command("list")(list_)
for _each in (
    check, statics, modes, assembly, new, convert, schema, run, kinematics, view, report, study, resume, status,
    compare, demo,
):  # fmt: skip
    app.command()(_each)
