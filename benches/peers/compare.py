"""Runs `benches/kernels` and a peer's same cases in turn and prints the table of ratios.

    python3 benches/peers/compare.py [--peer benches/peers/pytorch.py] [--kernels path of the bench's binary]

Without `--kernels` the bench is built and run by cargo. What either prints that is no case (`# ...`: devices, versions, errors
against float64) is printed before the table. A ratio above 1 means that onetrip takes longer.
"""

import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def run(command, environment=None):
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    cases, notes = {}, []
    for line in output.stdout.splitlines():
        words = line.split()
        if words[:1] == ["kernel"]:
            cases[words[1]] = words[2:]
        elif line.startswith("#"):
            notes.append(line)
    if output.returncode != 0:
        sys.exit(f"{command[0]} failed; it got as far as {list(cases)[-1:]}")
    return cases, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=str(HERE / "pytorch.py"))
    parser.add_argument("--kernels")
    arguments = parser.parse_args()
    cargo = ["cargo", "bench", "--quiet", "--bench", "kernels"]
    ours_command = [arguments.kernels] if arguments.kernels else cargo
    # First calls are those of a user's first run.
    ours, notes = run(ours_command, {**os.environ, "ONETRIP_CACHE": "off"})
    theirs, more = run([sys.executable, arguments.peer])
    print("\n".join(notes + more), end="\n\n")
    print("| case | onetrip | rate | first call | peer | onetrip / peer |")
    print("|---|--:|--:|--:|--:|--:|")
    for case, (milliseconds, *rate, first) in ours.items():
        peer = theirs.get(case, [None])[0]
        ratio = f"{float(milliseconds) / float(peer):.2f}" if peer else "–"
        shown = f"{float(peer):.3f} ms" if peer else "–"
        print(f"| {case} | {milliseconds} ms | {' '.join(rate)} | {first} ms | {shown} | {ratio} |")


if __name__ == "__main__":
    main()
