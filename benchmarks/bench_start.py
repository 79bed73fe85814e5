"""Seconds until `import observal` and `observal --help` are done, beside Python's own; and peak memory. Best of five."""

from __future__ import annotations

from commands import run_python

WHAT = {
    "python -c pass": ("-c", "pass"),
    "python -c 'import numpy'": ("-c", "import numpy"),
    "python -c 'import observal'": ("-c", "import observal"),
    "observal --help": ("-m", "observal", "--help"),
}


def main() -> None:
    print("| | s | processor s | peak MB |\n| --- | --- | --- | --- |")
    for name, arguments in WHAT.items():
        costs = [run_python(*arguments) for _ in range(5)]
        best = [min(cost[k] for cost in costs) for k in range(3)]
        print(f"| `{name}` | {best[0]:.2f} | {best[1]:.2f} | {best[2]:.0f} |")


if __name__ == "__main__":
    main()
