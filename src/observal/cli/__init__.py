"""The command line: thin; every command is also a function."""

from __future__ import annotations

from observal.cli import demo, label, results, start
from observal.cli.app import make_app, run
from observal.cli.output import print_table, progress_bar

__all__ = ["app", "main", "print_table", "progress_bar"]

app = make_app(
    "Pick which rows to label next when the labels you already have were chosen by an old policy.",
    {
        "Start": {"diagnose": start.diagnose, "init": start.init, "demo": demo.demo},
        "Label": {
            "ask": label.ask,
            "tell": label.tell,
            "serve": label.serve,
            "annotator": label.annotator,
            "release": label.release,
            "extend": label.extend,
        },
        "Result": {
            "status": results.status,
            "report": results.report,
            "export": results.export,
            "predict": results.predict,
            "monitor": results.monitor,
            "history": results.history,
            "check": results.check,
            "backup": results.backup,
        },
    },
)


def main() -> None:
    """Run the command line."""
    run(app)
