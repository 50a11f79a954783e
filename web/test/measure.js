// The figures of a page on one device, `?device=cpu` or `?device=gpu`, from the start of the page's load on.
// `?what=` is `load`, `recording` or `leaks`.

import { Device, Program, init } from '/package/index.js';
import { repeated } from './leaks.js';

const { searchParams } = new URL(location.href);
const asked = searchParams.get('device');
const now = () => performance.now();

/** Milliseconds from the start of the load to the first prediction, step by step. */
async function load() {
  const marks = { script: now() };
  await init();
  marks.webAssembly = now();
  const device = await Device[asked]();
  marks.device = now();
  const program = await Program.load(device, '/demo/drawn_digits.safetensors');
  marks.program = now();
  const [{ name, shape }] = program.inputs();
  const pixels = new Float32Array(shape.reduce((all, one) => all * one)).fill(0.5);
  await program.run({ [name]: pixels });
  marks.first = now();
  await program.run({ [name]: pixels });
  marks.second = now();
  // Its kernels are compiled.
  (await Program.load(device, '/demo/drawn_digits.safetensors')).free();
  marks.again = now();
  return marks;
}

/** Nanoseconds of a recorded operation, the least of some rounds: by its method, and of the parts of that. */
async function recording() {
  const device = await Device.cpu();
  const OPERATIONS = 2000;
  const least = async (round) => {
    let found = Infinity;
    for (let time = 0; time < 15; time += 1) {
      const begin = now();
      await round();
      found = Math.min(found, ((now() - begin) / OPERATIONS) * 1e6);
    }
    return Math.round(found);
  };
  const chain = (record) => () => {
    const batch = device.batch();
    let x = batch.input('x', 16);
    for (let at = 0; at < OPERATIONS; at += 1) x = record(x);
    batch.free();
  };
  return {
    unary: await least(chain((x) => x.relu())),
    binary: await least(chain((x) => x.add(x))),
    parameter: await least(chain((x) => x.scale(0.5))),
    place: await least(() => {
      for (let at = 0; at < OPERATIONS; at += 1) new Error().stack.split('\n');
    }),
  };
}

/** The counts of what the page holds before and after many runs. */
async function leaks() {
  return repeated(await Device[asked](), Number(searchParams.get('runs') ?? 10_000));
}

globalThis.figures = await { load, recording, leaks }[searchParams.get('what')]();
