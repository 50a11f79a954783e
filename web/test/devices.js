// A lost device, and a browser without WebGPU.

import { Device, Program } from '/package/index.js';

/** The program y = relu(2·x + 1) over 256 elements. */
async function program(device) {
  using batch = device.batch();
  batch.input('x', 256).scale(2).add_scalar(1).relu().named('y');
  return batch.compile();
}

const x = Float32Array.from({ length: 256 }, (_, at) => at - 128);
const isRight = (y) => y.every((value, at) => value === Math.max(2 * x[at] + 1, 0));

export async function checkLoss(checks) {
  const device = await Device.gpu();
  const before = await program(device);
  checks.that(isRight((await before.run({ x })).y), 'a run before the loss');
  const underWay = before.run({ x });
  device.simulateLoss();
  // Its results may have come before the loss.
  try {
    checks.that(isRight((await underWay).y), 'a run under way has wrong results');
  } catch (error) {
    checks.that(/DeviceError: .*lost/.test(`${error.name}: ${error.message}`), `under way: ${error}`);
  }
  await checks.throws(() => before.run({ x }), /or go on with `Device\.cpu\(\)`$/, 'the words of a loss');
  await checks.throws(() => before.run({ x }), /DeviceError: .*lost/, 'a run on a lost device');
  const next = await Device.gpu();
  const again = await program(next);
  checks.that(isRight((await again.run({ x })).y), 'a run on the next device');
  await checkLossAmongRuns(checks);
  // Runs at once on one device.
  const many = await Promise.all(Array.from({ length: 20 }, () => again.run({ x })));
  checks.that(many.every(({ y }) => isRight(y)), 'twenty runs at once');
  // A program that is freed while it runs.
  const last = again.run({ x });
  again.free();
  checks.that(isRight((await last).y), 'a run whose program was freed');
}

/** A loss among many runs of several sizes: each ends, with its results or with the error. */
async function checkLossAmongRuns(checks) {
  for (const delay of [0, 1, 10, 100]) {
    const device = await Device.gpu();
    using batch = device.batch();
    batch.input('x', [4, 3]).scale(2).named('y');
    const program = await batch.compile();
    const one = async (rows) => {
      const { y } = await program.runRows({ x: new Float32Array(3 * rows).fill(rows) });
      return y.length === 3 * rows && y.every((value) => value === 2 * rows);
    };
    const runs = Promise.allSettled(Array.from({ length: 50 }, (_, run) => one(run % 9)));
    await new Promise((resolve) => setTimeout(resolve, delay));
    device.simulateLoss();
    const isLoss = ({ name, message }) => name === 'DeviceError' && /lost/.test(message);
    const wrong = (await runs).find(({ value, reason }) => (reason ? !isLoss(reason) : !value));
    checks.that(!wrong, `a loss after ${delay} ms: ${wrong?.reason ?? 'wrong results'}`);
  }
}

/** A kernel that the browser refuses, which it says late. Nothing else on the device fails for it. */
export async function checkLateErrors(checks, device) {
  const file = '/cases/refused.safetensors';
  await checks.throws(() => Program.load(device, file), /DataError: .*kernel of its own/, 'a kernel that nobody allowed');
  // Some browsers take the kernel of the file, and none an unknown name. Spaces replace the checksum of the text.
  const bytes = new Uint8Array(await (await fetch(file)).arrayBuffer());
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
  const unchecked = text.replace(/,\\"checksum\\":\d+/, (found) => ' '.repeat(found.length));
  const unknown = Uint8Array.from(unchecked.replace('x[0] / 2u', 'z[0] / 2u'), (letter) => letter.charCodeAt(0));
  const run = async () => {
    const refused = await Program.load(device, unknown, { wgsl: true });
    await refused.run({ x: new Uint32Array(1) });
  };
  await checks.throws(run, /DeviceError: .*refused/, 'a kernel that the browser refuses');
  await checks.throws(run, /DeviceError: .*refused/, 'the same again');
  const sound = await program(device);
  checks.that(isRight((await sound.run({ x })).y), 'a run after an error that came late');
}

export async function checkNoGpu(checks) {
  const adapter = await navigator.gpu?.requestAdapter();
  checks.that(!adapter, 'this browser should have no WebGPU');
  const device = await Device.auto();
  const { isGpu, fallback } = device.info();
  checks.that(!isGpu && /found: none/.test(fallback), `it says why: ${fallback}`);
  checks.that(fallback.includes('`Device.cpu()`') && !/::|ONETRIP_/.test(fallback), `in JavaScript: ${fallback}`);
  await checks.throws(() => Device.gpu(), /DeviceError: /, 'a GPU where there is none');
  const again = await program(device);
  checks.that(isRight((await again.run({ x })).y), 'a run on the CPU');
}
