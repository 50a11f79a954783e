// Recording from JavaScript: each operation that can be called by name, mistakes, and memory.

import { Program, operations } from '/package/index.js';
import load from '/package/onetrip_web.js';
import { difference, numbers, safetensors } from './compare.js';

const FAMILIES = ['elementwise', 'reduce', 'row', 'scan', 'matmul', 'movement', 'normalization'];
const NAMES = { keepDims: 'keep', epsilon: 'eps', lo: 'low', hi: 'high' };

/** The cases of all families that JavaScript can record. */
async function cases(known) {
  const all = [];
  for (const family of FAMILIES) {
    const { metadata, tensor } = await safetensors(`/reference/${family}.safetensors`);
    for (const one of JSON.parse(metadata.cases)) {
      const isPlain = !(one.params?.transpose_x || one.params?.transpose_w);
      if (known.has(one.op) && isPlain) all.push({ ...one, tensor });
    }
  }
  return all;
}

export async function checkRecorded(checks, device) {
  const known = new Map((await operations()).map((operation) => [operation.name, operation]));
  const seen = new Set();
  for (const { name, op, params = {}, inputs, output, tensor, flushed, ...tolerance } of await cases(known)) {
    seen.add(op);
    using batch = device.batch();
    const operands = inputs.map((input) => {
      const { data, shape } = tensor(input);
      return batch.upload(data, shape);
    });
    const parameters = known.get(op).parameters.map(({ name: parameter }) => {
      const given = params[parameter] ?? params[NAMES[parameter]];
      return typeof given === 'string' ? Number(given.replace('inf', 'Infinity')) : given;
    });
    const [first, ...others] = operands;
    const y = first[op](...others, ...parameters);
    y.named('y');
    try {
      await batch.execute();
    } catch (error) {
      checks.fail(`${name}: ${error.message}`);
      continue;
    }
    const wanted = tensor(output);
    const got = numbers(await y.read(), y.dtype);
    const other = flushed && numbers(tensor(flushed).data, wanted.dtype);
    const { rtol = 0, atol = 0, signed_zero: signedZero } = tolerance;
    const what = `${y.shape}` === `${wanted.shape}`
      ? difference(got, numbers(wanted.data, wanted.dtype), { rtol, atol, signedZero }, other)
      : `its shape is ${y.shape}`;
    checks.that(what === undefined, `${name} recorded here: ${what}`);
  }
  for (const name of known.keys()) checks.that(seen.has(name), `no case records ${name}`);
}

export async function checkMistakes(checks, device) {
  const mistake = (record, pattern, what) => {
    using batch = device.batch();
    record(batch);
    return checks.throws(() => batch.check(), pattern, what);
  };
  const place = 'RecordError: recording.js:[1-9][0-9]*: ';
  const two = new Float32Array(2);
  await mistake((b) => b.add(b.upload(two), b.upload(new Float32Array(3))), new RegExp(`${place}add: `), 'shapes');
  await mistake((b) => b.upload(two).sum(7), new RegExp(`${place}sum: .*7`), 'an axis');
  await mistake((b) => b.upload(two).softmax(), new RegExp(`${place}softmax: axis must be given`), 'a missing axis');
  await mistake((b) => b.upload(two).relu(5), new RegExp(`${place}relu: .*parameters must be 0, not 1`), 'a parameter');
  await mistake((b) => b.upload(two).add(), new RegExp(`${place}add: .*operands must be 2, not 1`), 'an operand');
  await mistake((b) => b.upload(two, [3]), new RegExp(`${place}upload`), 'a length');
  await mistake((b) => b.and(b.upload(two), b.upload(two)), new RegExp(`${place}and: `), 'a type');
  await mistake((b) => b.upload(two).add(b.upload(new Int32Array(2))), new RegExp(`${place}add: `), 'two types');
  await mistake((b) => b.upload(new Int32Array(2)).scale(0.5), new RegExp(`${place}scale: .*0.5`), 'half of an integer');
  // Wrong arguments that are none of onetrip's mistakes.
  using batch = device.batch();
  await checks.throws(() => batch.upload([1, 2]), /TypeError: data are/, 'an array');
  await checks.throws(() => batch.input('x', -1), /TypeError: a shape/, 'a size');
  await checks.throws(() => batch.input('x', 1, 'f64'), /TypeError: "f64"/, 'an element type');
  using other = device.batch();
  await checks.throws(() => batch.relu(other.upload(two)), /TypeError: recording\.js:[1-9].*: relu: .*same batch/, 'a foreign tensor');
  using empty = device.batch();
  await checks.throws(() => empty.execute(), /recording\.js:[1-9][0-9]*: the batch made here is empty/, 'an empty batch');
  const x = batch.upload(two);
  const number = /TypeError: recording\.js:[1-9][0-9]*: mul: .*the number 2; for a number use `scale` or `add_scalar`/;
  await checks.throws(() => x.mul(2), number, 'a number for a tensor');
  await checks.throws(() => batch.mul(x, 2), number, 'a number for a tensor of a batch');
  await checks.throws(() => x.scale('2'), /TypeError: recording\.js:[1-9][0-9]*: scale: a parameter is a number/, 'a text');
  await checks.throws(() => Program.load(device, new Uint8Array(9)), /DataError: /, 'a file that is none');
  await checks.throws(() => Program.load(device, '/nowhere'), /nowhere: the server answers 404/, 'a missing file');
}

/** Objects that nobody holds are freed without `free`. The browser runs with a `gc` for this. */
export async function checkFinalizers(checks, device) {
  const { memory } = await load();
  const data = new Float32Array(250_000).fill(1);
  const drop = async (times) => {
    for (let time = 0; time < times; time += 1) {
      const batch = device.batch();
      batch.upload(data).relu().named('y');
      const program = await batch.compile();
      if (time % 10 === 0) await program.run();
      if (time % 20 !== 19) continue;
      globalThis.gc();
      // Finalizers run in a task of their own.
      await new Promise((resolve) => setTimeout(resolve));
    }
  };
  await drop(60);
  const before = memory.buffer.byteLength;
  await drop(400);
  const grown = memory.buffer.byteLength - before;
  checks.that(grown < 100e6, `400 batches of 1 MB that nobody holds took ${grown} bytes more`);
}

/** Memory of WebAssembly does not grow with the number of runs, batches and programs. */
export async function checkMemory(checks, device) {
  const { memory } = await load();
  const once = async () => {
    using batch = device.batch();
    batch.input('x', 1000).relu().sum().named('y');
    using program = await batch.compile();
    const x = new Float32Array(1000).fill(1);
    for (let run = 0; run < 10; run += 1) {
      const { y } = await program.run({ x });
      if (y[0] !== 1000) checks.fail(`the sum is ${y[0]}`);
    }
  };
  const repeat = async (times) => {
    for (let time = 0; time < times; time += 1) await once();
  };
  await repeat(200);
  const before = memory.buffer.byteLength;
  await repeat(1000);
  const grown = memory.buffer.byteLength - before;
  checks.that(grown === 0, `10 000 runs of 1000 programs took ${grown} bytes more`);
}
