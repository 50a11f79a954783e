"""Writes data/voice_expected.safetensors: two seconds of sound, and what silero-vad says of each 32 ms of it.

    python3 -m venv venv && venv/bin/pip install numpy scipy torch safetensors
    venv/bin/python examples/voice/make_expected.py

The sound is made here: silence, three vowels from pulses through resonances (Klatt, 1980), and noise. The answers are those
of the network that the package defines for these weights (`tinygrad_model.py`), window by window, by PyTorch in float64.
"""

import pathlib

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from scipy import signal
from torch.nn import functional

RATE, WINDOW, CONTEXT = 16_000, 512, 64
DATA = pathlib.Path(__file__).parents[2] / "data"
# Three resonances of a, i and u, in hertz.
VOWELS = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240)]


def vowel(resonances, seconds, rng):
    """A voice that falls from 130 to 100 Hz."""
    count = int(seconds * RATE)
    pitch = np.linspace(130, 100, count) * (1 + 0.01 * rng.standard_normal(count).cumsum() / count**0.5)
    phase = np.cumsum(pitch / RATE)
    sound = np.diff(np.floor(phase), prepend=0.0) + 0.002 * rng.standard_normal(count)
    sound = signal.lfilter([1.0], [1.0, -0.96], sound)
    for hertz in resonances:
        radius = np.exp(-np.pi * 80 / RATE)
        turn = 2 * np.pi * hertz / RATE
        poles = [1.0, -2 * radius * np.cos(turn), radius**2]
        sound = signal.lfilter([sum(poles)], poles, sound)
    sound = np.diff(sound, prepend=0.0)
    fade = np.minimum(1.0, np.minimum(np.arange(count), np.arange(count)[::-1]) / (0.03 * RATE))
    return 0.3 * fade * sound / np.abs(sound).max()


def recording():
    rng = np.random.default_rng(5)
    pause = [np.zeros(int(0.2 * RATE))]
    parts = pause + [part for v in VOWELS for part in (vowel(v, 0.35, rng), np.zeros(int(0.05 * RATE)))] + pause
    parts.append(0.05 * rng.standard_normal(int(0.3 * RATE)))
    sound = np.concatenate(parts)
    sound = sound[: len(sound) // WINDOW * WINDOW]
    samples = np.round((sound + 0.001 * rng.standard_normal(len(sound))) * 32767)
    return (samples / 32768).astype(np.float32)


def answers(sound):
    """What the network says of each window, after those before it."""
    w = {name: torch.from_numpy(x).double() for name, x in load_file(DATA / "silero_vad_16k.safetensors").items()}
    cell = torch.nn.LSTMCell(128, 128, dtype=torch.float64)
    cell.load_state_dict({name[10:]: x for name, x in w.items() if name.startswith("lstm_cell.")})
    state, context = None, torch.zeros(CONTEXT, dtype=torch.float64)
    for window in torch.from_numpy(sound).double().reshape(-1, WINDOW):
        x = functional.pad(torch.cat([context, window])[None, None], (0, 64), "reflect")
        context = window[-CONTEXT:]
        x = functional.conv1d(x, w["stft_conv.weight"], stride=128)
        x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
        for layer, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
            weight, bias = w[f"conv{layer}.weight"], w[f"conv{layer}.bias"]
            x = functional.conv1d(x, weight, bias, stride, padding=1).relu()
        state = cell(x.squeeze(-1), state)
        x = state[0].relu().unsqueeze(-1)
        yield functional.conv1d(x, w["final_conv.weight"], w["final_conv.bias"]).sigmoid().item()


@torch.no_grad()
def main():
    sound = recording()
    said = np.array(list(answers(sound)), np.float32)
    save_file({"sound": sound, "probabilities": said}, DATA / "voice_expected.safetensors")
    print(len(said), "windows;", " ".join(f"{p:.2f}" for p in said))


main()
