"""One case on the CPU by ONNX Runtime, for `cpu_in_turns.py`: `onnxruntime_cpu.py <folder of the case> <threads>`.

It obeys the lines that `benches/cpu --worker` obeys. `slices` is `InferenceSession.run`, from NumPy arrays to a new one;
`in_place` runs with inputs and result bound where they lie. The first run includes opening the model.
"""

import pathlib
import statistics
import sys
import time

import numpy as np
import onnxruntime


def opened(folder, threads):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])


def median(seconds, call):
    times, start = [], time.perf_counter()
    while len(times) < 3 or (len(times) < 2000 and time.perf_counter() - start < seconds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def bound(session, inputs, result):
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    place = onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(result))
    binding.bind_ortvalue_output(session.get_outputs()[0].name, place)
    return binding, place


def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def main():
    folder, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    inputs = {path.name.removesuffix(".input.npy"): np.load(path) for path in folder.glob("*.input.npy")}
    start = time.perf_counter()
    session = opened(folder, threads)
    (result,) = session.run(None, inputs)
    print((time.perf_counter() - start) * 1e3, flush=True)
    placed = None
    for line in sys.stdin:
        what, _, argument = line.strip().partition(" ")
        if what == "peak":
            answer = peak()
        elif what == "slices":
            answer = median(float(argument), lambda: session.run(None, inputs))
        else:
            binding, place = placed = placed or bound(session, inputs, result)
            if what == "in_place":
                answer = median(float(argument), lambda: session.run_with_iobinding(binding))
            else:
                session.run_with_iobinding(binding)
                both = np.concatenate([session.run(None, inputs)[0].ravel(), place.numpy().ravel()])
                both.tofile(argument)
                answer = both.size
        print(answer, flush=True)


main()
