"""Run every benchmark of this folder and write what they say to RESULTS.md, side by side with its command.

    python benchmarks/results.py [--only scale] [--large]

`make bench` runs it. `--large` adds the tables of 20,000,000 rows, which take 8 GB of disk and most of an hour.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
START = (
    "import subprocess, sys, time\n"
    "for what in (['-c', 'pass'], ['-c', 'import observal'], ['-m', 'observal', '--help']):\n"
    "    times = []\n"
    "    for _ in range(5):\n"
    "        begun = time.perf_counter()\n"
    "        subprocess.run([sys.executable, *what], stdout=subprocess.DEVNULL, check=True)\n"
    "        times.append(time.perf_counter() - begun)\n"
    "    print('python', *what, f'{min(times):.2f} s')\n"
)
SECTIONS = {
    "Starting": ["-c", START],
    "Gradient kernel beside Vowpal Wabbit and the memory limit": ["bench_gradient_kernel.py"],
    "Exact method": ["bench_exact.py"],
    "Weights": ["bench_weights.py"],
    "A round of NewtonVC": ["bench_newton_round.py"],
    "A round of AutoVC beside margin sampling": ["bench_auto_round.py"],
    "A campaign in one file": ["bench_campaign.py"],
    "Scale: tables in place beside copied, NewtonVC": ["bench_scale.py", "--compare", "--method", "newton"],
    "Scale: tables in place beside copied, AutoVC": ["bench_scale.py", "--compare"],
    "Scale: growth of ask": ["bench_scale.py", "--growth", "1e4", "1e5", "1e6", "--method", "newton"],
    "Scale: Dask workers": ["bench_dask.py"],
}
LARGE = {
    "Scale: growth of ask up to ten million rows": [
        "bench_scale.py",
        "--growth",
        "1e5",
        "1e6",
        "1e7",
        "--method",
        "newton",
    ],
    "Scale: 20 + 20 million rows": ["bench_scale.py", "--rows", "20000000", "--method", "newton"],
}


def run(arguments: list[str]) -> tuple[str, float]:
    """Run a script and return what it prints and its seconds."""
    begun = time.perf_counter()
    command = (
        [sys.executable, *arguments]
        if arguments[0] == "-c"
        else [sys.executable, str(HERE / arguments[0]), *arguments[1:]]
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout if done.returncode == 0 else f"{done.stdout}\nfailed: {done.stderr.strip().splitlines()[-1:]}"
    return said.strip(), time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    sections = SECTIONS | (LARGE if options.large else {})
    wanted = {title: command for title, command in sections.items() if options.only.lower() in title.lower()}
    lines = [
        "# What the benchmarks measured",
        "",
        f"Written by `make bench` on {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f} at the start. Compare numbers of one section with each other, not with another machine's.",
    ]
    for title, command in wanted.items():
        print(title, flush=True)
        said, seconds = run(command)
        shown = "" if command[0] == "-c" else f"`python benchmarks/{' '.join(command)}`, {seconds:.0f} s:"
        lines += [
            "",
            f"## {title}",
            "",
            shown,
            "",
            *([said] if said.startswith("|") or "\n|" in said else ["```", said, "```"]),
        ]
    (HERE / "RESULTS.md").write_text("\n".join(lines).replace("\n\n\n", "\n\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
