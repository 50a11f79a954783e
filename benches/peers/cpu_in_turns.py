"""Compares the cases of `benches/cpu` with ONNX Runtime on the CPU, in turns, and prints tables.

    pip install onnxruntime onnx numpy
    python3 benches/peers/cpu_in_turns.py [--threads N] [--only NAME]... [--rounds N] [--results FILE [--seconds N]]

A round runs every case in a new process of either engine, first the one, then the other, and the next round the other
way round. The rounds of a case are minutes apart, so that a slow minute of the machine is in one of them. No process
waits while another is measured: ONNX Runtime's threads spin for a while after a run. The figures are medians over rounds.
Both engines have the first N cores. Every result is compared with float64 (`float64.py`).

Two networks are public models as they are, and left out unless their paths are known:

    pip download --no-deps silero-vad magika
    unzip silero_vad-*.whl 'silero_vad/data/*' && unzip magika-*.whl 'magika/models/*'
    export VOICE_MODEL=$PWD/silero_vad/data/silero_vad_16k_sequence.onnx
    export MAGIKA_MODEL=$PWD/magika/models/standard_v3_3/model.onnx

`--results` keeps the figures in a file and measures only rounds that it lacks, so that with `--seconds` a comparison can be
made in parts. `--folder` keeps models and float64 results, which `--rounds 0` makes without measuring.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:
    sys.exit(f"{error.name} is missing: pip install onnxruntime onnx numpy")

import float64
import onnx_cases

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 0.15
PAUSE = 0.05
TOLERANCE = 1e-4
ENGINES = ("onetrip", "peer")
# Times in milliseconds, the peak of memory in MiB.
FIGURES = ("slices", "in_place", "first", "peak")


def built():
    """The path of the bench's binary."""
    command = ["cargo", "bench", "--no-run", "--bench", "cpu", "--features", "blocking", "--message-format", "json"]
    lines = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    messages = [json.loads(line) for line in lines if line.startswith("{")]
    return next(message["executable"] for message in messages if message.get("target", {}).get("name") == "cpu")


def made(folder, name):
    """The folder of a case with its model, inputs and expected result."""
    folder = folder / name
    if not (folder / "expected.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        graph = onnx_cases.CASES[name]()
        model = graph.model()
        onnx.save(model, folder / "model.onnx")
        for key, array in graph.inputs.items():
            np.save(folder / f"{key}.input.npy", array)
        np.save(folder / "expected.npy", float64.evaluate(model.graph, graph.inputs))
    return folder


class Engine:
    """A process that obeys lines."""

    def __init__(self, command, threads):
        cores = sorted(os.sched_getaffinity(0))[:threads]
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "ONETRIP_CACHE": "off"}

        def confine():
            os.sched_setaffinity(0, cores)

        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, preexec_fn=confine, **pipes)
        self.first = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(map(str, self.process.args))} failed")
        return float(line)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measured(command, threads, expected, scratch):
    """The figures of one process, and how far its results are from float64 in parts of the greatest element."""
    engine = Engine(command, threads)
    figures = {"first": engine.first, "slices": engine.ask(f"slices {SECONDS}"), "peak": engine.ask("peak") / 1024}
    figures["in_place"] = engine.ask(f"in_place {SECONDS}")
    engine.ask(f"save {scratch}")
    engine.end()
    results = np.fromfile(scratch, np.float32).reshape(2, -1)
    error = np.abs(results - expected.ravel()).max() / np.abs(expected).max()
    time.sleep(PAUSE)
    return figures, float(error)


def measure(name, at, arguments, binary, folder):
    """The figures of either engine in round `at`, with their errors."""
    folder = made(folder, name)
    expected = np.load(folder / "expected.npy")
    commands = {
        "onetrip": [binary, "--worker", name],
        "peer": [sys.executable, HERE / "onnxruntime_cpu.py", folder, str(arguments.threads)],
    }
    both = {}
    for engine in sorted(commands, reverse=at % 2 == 1):
        figures, error = measured(commands[engine], arguments.threads, expected, folder / "results")
        if not error <= TOLERANCE:
            sys.exit(f"{name}: {engine} is off by {error:.1e} of the greatest element")
        both[engine] = {**figures, "error": error}
    return both


def medians(rounds):
    """The medians of either engine over rounds, and the greatest error."""
    case = {}
    for engine in ENGINES:
        all_figures = [both[engine] for both in rounds]
        case[engine] = {key: statistics.median(figures[key] for figures in all_figures) for key in FIGURES}
        case[engine]["error"] = max(figures["error"] for figures in all_figures)
    return case


def ratio(case, figure):
    return case["onetrip"][figure] / case["peer"][figure]


def table(title, cases, figures, heads):
    print(f"\n| {title} |" + "".join(f" {head} | ratio |" for head in heads))
    print("|---|" + "--:|" * 2 * len(heads))
    for name, case in cases.items():
        row = [f" {case['onetrip'][figure]:.3g} / {case['peer'][figure]:.3g} | {ratio(case, figure):.2f} |" for figure in figures]
        print(f"| {name} |" + "".join(row))
    for what, summary in (("geometric mean", mean), ("worst", worst)):
        print(f"| {what} |" + "".join(f" | {summary(cases, figure)} |" for figure in figures))


def mean(cases, figure):
    return f"{math.exp(statistics.fmean(math.log(ratio(case, figure)) for case in cases.values())):.2f}"


def worst(cases, figure):
    name = max(cases, key=lambda name: ratio(cases[name], figure))
    return f"{ratio(cases[name], figure):.2f} ({name})"


def report(cases, threads):
    print(f"\nonetrip / ONNX Runtime {onnxruntime.__version__}, {threads} threads, milliseconds. *Slices*: slices in, a new")
    print("vector or array out. *In place*: inputs and result where they lie. *First*: opening, recording and the first run.")
    times = ["slices", "in place", "first"]
    groups = {"single operation": onnx_cases.OPERATIONS, "network": onnx_cases.NETWORKS}
    for title, names in groups.items():
        group = {name: cases[name] for name in names if name in cases}
        if group:
            memory = title == "network"
            table(title, group, FIGURES[: 3 + memory], times + ["peak, MiB"] * memory)
    for engine in ENGINES:
        name = max(cases, key=lambda name: cases[name][engine]["error"])
        print(f"\nGreatest error of {engine}: {cases[name][engine]['error']:.1e} of the greatest element ({name}).", end="")
    print()


def kept(path):
    """The rounds in a file of an earlier comparison, by case; none without a file."""
    if path is None:
        return {}
    if not path.parent.is_dir():
        sys.exit(f"{path.parent} is no folder: make it, or name another file for --results")
    if not path.exists():
        return {}
    try:
        rounds = json.loads(path.read_text())
        for of_case in rounds.values():
            for both in of_case:
                for engine in ENGINES:
                    float(both[engine]["error"]), [float(both[engine][key]) for key in FIGURES]
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        sys.exit(f"{path} has no rounds of this script: remove it, or name another file for --results")
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("--only", action="append", default=[], help="part of a case's name; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--binary", help="the bench's binary, where cargo has not to build it")
    arguments = parser.parse_args()
    names = [name for name in onnx_cases.CASES if not arguments.only or any(part in name for part in arguments.only)]
    for variable in ("VOICE_MODEL", "MAGIKA_MODEL"):
        if not os.environ.get(variable):
            print(f"{variable} is not set: its network is left out (see --help)", file=sys.stderr)
    if not names:
        sys.exit(f"no case is named so; there are {', '.join(onnx_cases.CASES)}")
    if not 1 <= arguments.threads <= cores or arguments.rounds < 0:
        parser.error(f"--threads is 1 to {cores} here, and --rounds 0 or more")
    if arguments.binary and not os.access(arguments.binary, os.X_OK):
        parser.error(f"{arguments.binary} is no program")
    rounds = kept(arguments.results)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        start, binary = time.monotonic(), arguments.binary or (built() if arguments.rounds else None)
        if arguments.rounds == 0:
            for name in names:
                made(folder, name)
        for at, name in itertools.product(range(arguments.rounds), names):
            of_case = rounds.setdefault(name, [])
            if len(of_case) == at and time.monotonic() - start < arguments.seconds:
                both = measure(name, at, arguments, binary, folder)
                of_case.append(both)
                print(f"{at + 1}, {name}: {ratio(both, 'slices'):.2f}", file=sys.stderr, flush=True)
                if arguments.results:
                    arguments.results.write_text(json.dumps(rounds, indent=1))
    left = [name for name in names if len(rounds.get(name, [])) < arguments.rounds]
    if left:
        print(f"{len(left)} cases lack rounds, {left[0]} the first of them", file=sys.stderr)
    cases = {name: medians(of_case) for name, of_case in rounds.items() if of_case and name in onnx_cases.CASES}
    if cases:
        report(cases, arguments.threads)


if __name__ == "__main__":
    main()
