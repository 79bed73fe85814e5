"""The command line: thin; every command is also a function."""

from __future__ import annotations

from observal.cli import campaigns, demo, init, reports, serving, status
from observal.cli.app import make_app, run
from observal.cli.output import print_table, progress_bar

__all__ = ["app", "main", "print_table", "progress_bar"]

app = make_app(
    "Pick which rows to label next when the labels you already have were chosen by an old policy.",
    {
        "Start": {"diagnose": reports.diagnose, "init": init.init, "demo": demo.demo},
        "Label": {
            "ask": campaigns.ask,
            "tell": campaigns.tell,
            "serve": serving.serve,
            "annotator": serving.annotator,
            "release": campaigns.release,
            "extend": campaigns.extend,
        },
        "Result": {
            "status": status.status,
            "report": reports.report,
            "export": campaigns.export,
            "history": campaigns.history,
            "check": campaigns.check,
        },
    },
)


def main() -> None:
    """Run the command line."""
    run(app)
