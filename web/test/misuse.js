// Wrong arguments, damaged files, and objects after `free`: each gets an error that names it, and WebAssembly goes on
// as before.

import { Device, Program } from '/package/index.js';
import load from '/package/onetrip_web.js';
import { identity } from './programs.js';

const two = new Float32Array([1, 2]);

/** Data whose buffer was transferred, as `postMessage` does. */
function transferred(array) {
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
}

export async function checkArguments(checks, device) {
  using program = await identity(device);
  using batch = device.batch();
  const x = batch.upload(two);
  for (const name of [5, undefined, null, {}, ['x'], Symbol('x'), 1n]) {
    const what = `the name ${typeof name}`;
    await checks.throws(() => batch.input(name, 2), /TypeError: the name of an input is a string/, what);
    await checks.throws(() => x.named(name), /TypeError: the name of a tensor is a string/, what);
    await checks.throws(() => batch.call(name, [x]), /TypeError: the name of an operation is a string/, what);
    await checks.throws(() => batch.input('x', 2, name ?? 7), /TypeError: an element type is a string/, what);
  }
  const buffer = new ArrayBuffer(8);
  const others = [new Float64Array(2), new Uint8ClampedArray(2), new DataView(buffer), buffer, [1, 2], undefined, null, 3];
  // They inherit from a typed array whose methods throw for them.
  const fakes = [Object.create(Float32Array.prototype), new Proxy(two, {})];
  for (const data of [...others, ...fakes]) {
    const what = `data that are ${Object.prototype.toString.call(data)}`;
    await checks.throws(() => batch.upload(data), /TypeError: data are a/, what);
    await checks.throws(() => program.runRows({ x: data }), /TypeError: input "x" takes a Float32Array, not /, what);
    await checks.throws(() => program.runRows({ z: data }), /TypeError: input "z": data are a/, `${what} for no input`);
  }
  if (ArrayBuffer.prototype.resize) {
    const shrunk = new ArrayBuffer(12, { maxByteLength: 12 });
    const data = new Float32Array(shrunk, 0, 3);
    shrunk.resize(8);
    await checks.throws(() => batch.upload(data), /TypeError: the data are gone/, 'a view beyond its buffer');
  }
  const [x3, bytes] = [transferred(new Float32Array(3)), transferred(new Uint8Array(3))];
  await checks.throws(() => batch.upload(x3), /TypeError: the data are gone/, 'an upload of data that are gone');
  await checks.throws(() => program.runRows({ x: x3 }), /TypeError: input "x": the data are gone/, 'a run of them');
  await checks.throws(() => Program.load(device, bytes), /TypeError: the data are gone/, 'a file that is gone');
  // More than WebAssembly can address. The browser gives such an array its memory only where it is written.
  const vast = new Uint8Array(2 ** 31);
  await checks.throws(() => Program.load(device, vast), /RangeError: .*no room for data of 2147483648 bytes/, 'a vast file');
  await checks.throws(() => batch.upload(vast), /RangeError: .*no room for data of 2147483648 bytes/, 'vast data');
  for (const parameters of [null, 5, {}]) {
    await checks.throws(() => batch.call('scale', [x], parameters), /TypeError: /, `parameters ${parameters}`);
  }
  for (const runs of [0, -1, 1.5, NaN, '3', null, 2 ** 32, 1n]) {
    await checks.throws(() => program.profile({}, { runs }), /RangeError: .*`runs` is a whole number/, `${runs} runs`);
  }
  for (const other of [undefined, null, {}, program]) {
    await checks.throws(() => Program.load(other, new Uint8Array(9)), /TypeError: .*on a device/, 'no device');
  }
  // No call above has left the batch or the program in use.
  x.scale(2).named('y');
  const next = await batch.compile();
  checks.that(`${(await next.run()).y}` === '2,4', 'the batch goes on');
  next.free();
}

/** Views of other buffers are read by their own part. Results belong to the caller. */
export async function checkViews(checks, device) {
  using program = await identity(device);
  const numbers = [NaN, Infinity, -Infinity, -0, 0, 2 ** -130];
  const whole = new Float32Array([7, ...numbers, 7]);
  const shared = globalThis.SharedArrayBuffer ? [new Float32Array(new SharedArrayBuffer(24))] : [];
  shared.forEach((array) => array.set(numbers));
  const { contentWindow } = document.body.appendChild(document.createElement('iframe'));
  const parts = [whole.subarray(1, 7), new Float32Array(whole.buffer, 4, 6)];
  for (const x of [...parts, contentWindow.Float32Array.from(numbers), ...shared]) {
    const { y } = await program.runRows({ x });
    const isSame = y.length === 6 && numbers.every((number, at) => Object.is(y[at], Math.fround(number)));
    checks.that(isSame, `a view became ${y}`);
  }
  const x = Float32Array.from(numbers);
  const [first, second] = [program.runRows({ x }), program.runRows({ x })];
  x.fill(9);
  const results = [(await first).y, (await second).y];
  results[0].fill(5);
  checks.that(results[1][1] === Infinity, 'runs read a copy of the data, and results are copies');
}

export async function checkFreed(checks, device) {
  const batch = device.batch();
  const x = batch.input('x', [4, 3]);
  x.relu().named('y');
  const [program, other] = [await batch.compile(), await Device.cpu()];
  const plan = program.plan();
  for (const object of [batch, program, plan, other]) {
    object.free();
    object.free();
  }
  const calls = [
    () => program.run(), () => program.runRows(), () => program.rows(), () => program.explain(),
    () => program.profile(), () => plan.toHtml(), () => x.shape, () => x.relu(), () => x.named('z'),
    () => batch.compile(), () => batch.toBytes(), () => batch.execute(), () => other.batch(),
    () => Program.load(other, new Uint8Array(9)),
  ];
  for (const call of calls) await checks.throws(call, /TypeError: this object was freed/, `freed: ${call}`);
}

/** Files that are cut off or changed are a `DataError`, and no promise is left open. */
export async function checkDamagedFiles(checks, device) {
  using batch = device.batch();
  batch.input('x', [4, 3]).matmul(batch.upload(new Float32Array(12), [3, 4])).relu().named('y');
  const sound = await batch.toBytes();
  const damaged = [];
  for (let length = 0; length < sound.length; length += 7) damaged.push(sound.slice(0, length));
  for (const length of [0n, 0x7fffffffn, 0xffffffffn, 0x100000000n, 0xffffffffffffffffn]) {
    const bytes = sound.slice();
    new DataView(bytes.buffer).setBigUint64(0, length, true);
    damaged.push(bytes);
  }
  for (let at = 8; at < sound.length - 48; at += 1) {
    const bytes = sound.slice();
    bytes[at] = bytes[at] === 0x39 ? 0x22 : 0x39;
    damaged.push(bytes);
  }
  let refused = 0;
  for (const bytes of damaged) {
    try {
      // Some changes leave a program, say one of another name.
      using program = await Program.load(device, bytes);
      await program.run({ x: new Float32Array(12) });
    } catch (error) {
      if (error.name === 'DataError') refused += 1;
      else checks.fail(`a damaged file: ${error.name}: ${error.message}`);
    }
  }
  checks.that(refused > damaged.length / 2, `${refused} of ${damaged.length} damaged files are refused`);
}

/** Calls that fail leave nothing in the memory of WebAssembly. */
export async function checkFailures(checks, device) {
  const { memory } = await load();
  using program = await identity(device);
  const [x, garbage, gone] = [new Float32Array(100_001), new Uint8Array(100_000), transferred(new Float32Array(9))];
  const calls = [
    () => program.runRows({ x }),
    () => program.run({ x }),
    () => program.run({ x: gone }),
    () => program.run({ z: x }),
    () => program.run({ x: new Proxy(x, {}) }),
    () => Program.load(device, garbage),
    () => {
      using batch = device.batch();
      batch.upload(x).sum(7);
      batch.check();
    },
  ];
  const repeat = async (times) => {
    for (let time = 0; time < times; time += 1) {
      for (const call of calls) {
        try {
          await call();
          checks.fail(`no error: ${call}`);
        } catch {
          // It is meant to fail.
        }
      }
    }
  };
  await repeat(20);
  const before = memory.buffer.byteLength;
  await repeat(2000);
  const grown = memory.buffer.byteLength - before;
  checks.that(grown === 0, `2000 calls of each that fails took ${grown} bytes`);
}
