"""Run every benchmark of this folder and write what they say to RESULTS.md, each with its command.

    python benchmarks/results.py [--only scale] [--quick] [--large] [--out benchmarks/RESULTS.md]

`make bench` runs it; it takes about 15 minutes on two quiet cores. Sections that are not run keep what the page says of them, so `--only`
brings one up to date. `--quick` runs everything on small tables, to see that it works. `--large` adds what takes
8 GB of disk and an hour.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Section(NamedTuple):
    """A title, a command, and what to add to it for a quick look."""

    title: str
    command: str
    quick: str = ""
    large: bool = False


SECTIONS = (
    Section("Starting", "bench_start.py"),
    Section("Gradient kernel", "bench_gradient_kernel.py", "--rows 20000 --repeats 2"),
    Section("The paper's figure", "bench_reproduce.py", "--trials 2"),
    Section("Exact method", "bench_exact.py", "--hypotheses 500 --rows 2000"),
    Section("Weights", "bench_weights.py", "--rows 100000"),
    Section("A round of NewtonVC", "bench_newton_round.py", "--sizes 5000 10000"),
    Section("A round of AutoVC beside scikit-activeml's margin", "bench_auto_round.py", "--sizes 5000 10000"),
    Section("A campaign in one file", "bench_campaign.py", "--rows 20000 --features 10 --logged 5000"),
    Section("A campaign on a table like a census", "bench_campaign_size.py", "--rows 2000 --labels 20"),
    Section("A campaign on an ordinary table", "bench_campaign_size.py --ordinary", "--rows 600 --labels 20"),
    Section("The labelling page with 50 people", "bench_page.py", "--people 5 --seconds 3 --round 60"),
    Section("Scoring a table", "bench_predict.py", "--rows 20000"),
    Section("Scale: tables in place beside copied", "bench_scale.py --compare --method newton", "--rows 50000"),
    Section("Scale: parts and workers beside memory", "bench_workers.py", "--rows 50000"),
    Section("Scale: two Dask workers beside one", "bench_workers.py --scoring", "--rows 50000 --kills 1"),
    Section("Scale: growth of ask", "bench_scale.py --method newton --growth 1e4 1e5 1e6 1e7", "--growth 1e4 3e4"),
    Section("Scale: 20 + 20 million rows, NewtonVC", "bench_scale.py --method newton --rows 20000000", large=True),
    Section("Scale: 20 + 20 million rows, AutoVC", "bench_scale.py --rows 20000000", large=True),
)


def run(section: Section, quick: bool) -> str:
    """Run a benchmark and return its section of the page."""
    command = f"{section.command} {section.quick}".strip() if quick else section.command
    script, *arguments = command.split()
    load, start = os.getloadavg()[0], time.perf_counter()
    process = subprocess.run(
        [sys.executable, str(HERE / script), *arguments], capture_output=True, text=True, check=False, cwd=HERE.parent
    )
    output = process.stdout.strip()
    if process.returncode:
        output += "\n\nfailed: " + " ".join(process.stderr.strip().splitlines()[-1:])
    text = output if "| --- |" in output or process.returncode else f"```text\n{output}\n```"
    when = f"{time.strftime('%Y-%m-%d')}, {time.perf_counter() - start:.0f} s, load {load:.1f} at the start"
    return f"## {section.title}\n\n`python benchmarks/{command}` ({when}):\n\n{text}\n"


def read(path: Path) -> dict[str, str]:
    """Return the sections of a page by title, in their order."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part.splitlines()[0][3:]: part.strip() + "\n" for part in parts}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    options = parser.parse_args()
    sections, failed = read(options.out), []
    for section in SECTIONS:
        if options.only.lower() not in section.title.lower() or (section.large and not options.large):
            continue
        print(section.title, flush=True)
        sections[section.title] = run(section, options.quick)
        failed += [section.title] if "\nfailed: " in sections[section.title] else []
        order = {section.title: k for k, section in enumerate(SECTIONS)}
        pages = [sections[title] for title in sorted(sections, key=lambda title: order.get(title, len(order)))]
        options.out.write_text("\n".join([HEAD, *pages]), encoding="utf-8")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


HEAD = f"""# What the benchmarks measured

Written by `make bench` on {os.cpu_count()} cores with Python {platform.python_version()}. Compare numbers of one section with each other,
not with another machine's; where the load at the start was above {os.cpu_count()}, compare processor times and not those of the clock.
"""


if __name__ == "__main__":
    main()
