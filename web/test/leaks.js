// What a page holds does not grow with the number of runs.

import { Program } from '/package/index.js';
import { counts } from './counts.js';

/** Bytes of JavaScript that the browser may keep by itself, such as code that it has optimised meanwhile. */
const OWN_BYTES = 400_000;

/** Runs the network of drawn digits on `device`, `runs` times in all: each with one row, every tenth with some rows. */
export async function repeated(device, runs) {
  using program = await Program.load(device, '/demo/drawn_digits.safetensors');
  const [{ name, shape }] = program.inputs();
  const pixels = new Float32Array(shape.reduce((all, one) => all * one)).fill(0.5);
  const batched = await rows(device);
  const repeat = async (times) => {
    for (let time = 0; time < times; time += 1) {
      if (time % 10 === 9) await batched.runRows({ x: new Float32Array(4 * (1 + (time % 7))) });
      else await program.run({ [name]: pixels });
    }
  };
  await repeat(100);
  const before = await counts();
  await repeat(runs);
  const after = await counts();
  batched.free();
  return { before, after };
}

/** A program of any number of rows. */
async function rows(device) {
  using batch = device.batch();
  batch.input('x', [8, 4]).softmax(1).named('y');
  return batch.compile();
}

export async function checkLeaks(checks, device, runs) {
  const { before, after } = await repeated(device, runs);
  const text = `${runs} runs: ${JSON.stringify(before)} became ${JSON.stringify(after)}`;
  for (const count of ['listeners', 'buffers', 'wasm']) checks.that(after[count] <= before[count], `${count}, ${text}`);
  // Other browsers do not tell the size of their heap.
  if (before.heap !== undefined) checks.that(after.heap - before.heap < OWN_BYTES, `heap, ${text}`);
  return text;
}
