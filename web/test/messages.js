// Messages in the names of JavaScript, places in bundles, casts, and figures that a coarse clock measures.

import { Device, Program, operations } from '/package/index.js';
import { identity } from './programs.js';

/** The message of each mistake names what JavaScript has. */
export async function checkWords(checks, device) {
  using program = await identity(device);
  const x = new Float32Array(12);
  const throws = (call, pattern, what) => checks.throws(call, pattern, what);
  await throws(() => program.run({ x: new Float64Array(12) }), /^TypeError: input "x" takes a Float32Array, not a Float64Array$/, 'doubles');
  await throws(() => program.run({ x: new Int32Array(12) }), /^TypeError: input "x" takes a Float32Array, not an Int32Array$/, 'integers');
  await throws(() => program.run({ x: [1] }), /^TypeError: input "x" takes a Float32Array, not an Array$/, 'an array');
  await throws(() => program.run({ x: null }), /not null$/, 'null');
  await throws(() => program.run(), /^DataError: input "x" .* has no data; give it to the run$/, 'a missing input');
  await throws(() => program.run({ X: x }), /^DataError: no input is called "X" \(did you mean "x"\?\).*`named` give names$/, 'an unknown input');
  using batch = device.batch();
  const [a, b] = [batch.upload(new Float32Array(6), [2, 3]), batch.upload(new Float32Array(12), [4, 3])];
  a.matmul(b);
  a.reshape([4]);
  batch.upload(new Float32Array(2), 3);
  let text = '';
  try {
    batch.check();
  } catch ({ message }) {
    text = message;
  }
  checks.that(/upload: 2 elements/.test(text) && !/::|upload_shaped|unsqueeze|`pad`/.test(text), `the mistakes: ${text}`);
  using other = device.batch();
  const unnamed = other.upload(new Float32Array(2)).relu();
  unnamed.relu().named('y');
  await other.execute();
  await throws(() => other.read(unnamed), /^ReadError: .*call `named` on it$/, 'a value that is no result');
  await throws(() => other.read('y'), /^TypeError: `read` takes a tensor/, 'a name for a tensor');
  await throws(() => Program.load(Device.cpu(), 'x'), /^TypeError: .*`await` the promise first$/, 'a device to wait for');
  await throws(() => Program.load(device, '/test/index.html'), /^Error: \/test\/index\.html: the server sent a page of HTML/, 'a page');
  await throws(() => Program.load(device, '/test/test.js'), /^DataError: \/test\/test\.js: /, 'another file');
  const bytes = new TextEncoder().encode('<!doctype html>');
  await throws(() => Program.load(device, bytes), /^DataError: /, 'the bytes of a page');
  const docs = (await operations()).map(({ doc }) => doc).join('\n');
  checks.that(!/\]\(|::[a-z]/.test(docs) && docs.includes('`FaultError`'), 'no documentation has links of Rust');
}

/** Casts by the rules of Rust's `as`. */
export async function checkCasts(checks, device) {
  using batch = device.batch();
  const x = batch.upload(new Float32Array([-1.5, NaN, 3e9, 2.75, -0]));
  const results = {
    i32: x.cast('i32'), u32: batch.cast(x, 'u32'), bool: x.cast('bool'), same: x.cast('f32'), back: x.cast('bool').cast('f32'),
    half: x.cast('f16'),
  };
  for (const [name, value] of Object.entries(results)) value.named(name);
  checks.that(results.i32.dtype === 'i32' && results.half.dtype === 'f16', 'the types of casts');
  using program = await batch.compile();
  const got = await program.run();
  checks.that(`${got.i32}` === '-1,0,2147483647,2,0', `i32: ${got.i32}`);
  checks.that(`${got.u32}` === '0,0,3000000000,2,0', `u32: ${got.u32}`);
  checks.that(`${got.bool}` === '1,1,1,1,0' && `${got.back}` === '1,1,1,1,0', `bool: ${got.bool}`);
  checks.that(`${got.same}` === '-1.5,NaN,3000000000,2.75,0' && Object.is(got.same[4], -0), `f32: ${got.same}`);
  checks.that(got.half[0] === 0xbe00 && got.half[2] === 0x7c00 && got.half[4] === 0x8000, `f16: ${got.half}`);
  await checks.throws(() => x.cast('f64'), /^TypeError: "f64" is no element type/, 'a type that there is not');
  await checks.throws(() => x.cast(), /^TypeError: an element type is a string/, 'no type');
}

/** In a bundle the caller of the package is in the same file as the package. */
export async function checkBundle(checks) {
  const text = await (await fetch('/package/index.js')).text();
  const source = text.replace("'./onetrip_web.js'", `'${new URL('/package/onetrip_web.js', location.href)}'`);
  const line = source.split('\n').length + 1;
  const bundle = `${source}\nexport const mistake = (batch) => batch.upload(new Float32Array(2)).sum(7);\n`;
  const url = URL.createObjectURL(new Blob([bundle], { type: 'text/javascript' }));
  const bundled = await import(url);
  const device = await bundled.Device.cpu();
  using batch = device.batch();
  bundled.mistake(batch);
  await checks.throws(() => batch.check(), new RegExp(`^RecordError: [^:]+:${line}: sum: `), 'a mistake in a bundle');
}

/** The time of a profile's run is the mean of all runs, as the times of its kernels are. */
export async function checkMeans(checks, device) {
  using batch = device.batch();
  batch.input('x', [64, 64]).matmul(batch.input('w', [64, 64])).relu().named('y');
  using program = await batch.compile();
  const inputs = { x: new Float32Array(4096), w: new Float32Array(4096) };
  await program.run(inputs);
  using profile = await program.profile(inputs, { runs: 300 });
  const kernels = profile.kernels.reduce((sum, { time }) => sum + time, 0);
  const { runTime } = profile.stats;
  // One run alone is a whole number of the clock's steps, mostly 0 or 1.
  checks.that(kernels > 0 && kernels <= runTime, `${kernels} s of kernels in a run of ${runTime} s`);
}

/** Each figure of a calibration is one, though the clock has coarse steps. */
export async function checkCalibration(checks) {
  const device = await Device.cpu();
  const typical = device.profile();
  const first = await device.calibrate();
  const again = await device.calibrate();
  checks.that(!typical.measured && first.measured && again.measured, 'it is measured');
  for (const { cpu } of [first, again]) {
    // Nothing is moved to the CPU, so that the rates of transfers have no end.
    const { upload, download, ...measured } = cpu;
    const isSound = Object.values(measured).every((figure) => Number.isFinite(figure) && figure > 0);
    checks.that(upload === Infinity && download === Infinity, `transfers: ${upload}, ${download}`);
    checks.that(isSound, `figures: ${JSON.stringify(cpu)}`);
    checks.that(cpu.roundTrip < 1e-3 && cpu.dispatch < 1e-4, `a trip of ${cpu.roundTrip} s, a kernel of ${cpu.dispatch} s`);
  }
}
