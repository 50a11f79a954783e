// The network of handwritten digits: as a file that a native onetrip has saved, and recorded here.

import { Program } from '/package/index.js';
import { safetensors } from './compare.js';

/** The pixels and classes of the test rows. */
async function dataset() {
  const packed = await fetch('/data/digits.csv.gz');
  const text = await new Response(packed.body.pipeThrough(new DecompressionStream('gzip'))).text();
  const rows = text.trim().split('\n').map((line) => line.split(',').map(Number));
  return rows;
}

export async function checkDigits(checks, device) {
  const rows = await dataset();
  const model = await safetensors('/data/digits_mlp.safetensors');
  const expected = (await safetensors('/data/digits_mlp_expected.safetensors')).tensor('logits').data;
  const tests = testRows(rows);
  const pixels = Float32Array.from(tests.flatMap((row) => row.slice(0, 64)), (pixel) => pixel / 16);
  const classes = tests.map((row) => row[64]);

  const check = (what, { logits, class: found }) => {
    const right = classes.filter((one, at) => found[at] === one).length;
    const error = logits.reduce((most, logit, at) => Math.max(most, Math.abs(logit - expected[at])), 0);
    checks.that(right === 329, `${what}: ${right} of ${classes.length} are right, not 329`);
    checks.that(error < 1e-4, `${what}: the error is ${error}`);
  };

  using program = await Program.load(device, '/cases/digits.safetensors');
  const [input] = program.inputs();
  checks.that(input.name === 'pixels' && `${input.shape}` === '360,64', `the input is ${JSON.stringify(input)}`);
  const whole = await program.run({ pixels });
  check('digits from a file', whole);
  const few = await program.runRows({ pixels: pixels.subarray(0, 5 * 64) });
  checks.that(`${few.class}` === `${whole.class.subarray(0, 5)}`, `five digits of a file for 360: ${few.class}`);
  await checks.throws(() => program.run({ pixels: pixels.subarray(1) }), /DataError: .*23039/, 'a short input');
  await checks.throws(() => program.run({ pixel: pixels }), /DataError: .*pixels/, 'an unknown input');

  using batch = device.batch();
  const layer = (x, number) => {
    const [w, b] = [model.tensor(`w${number}`), model.tensor(`b${number}`)];
    return batch.linear(x, batch.upload(w.data, w.shape), batch.upload(b.data, b.shape));
  };
  const x = batch.input('pixels', [360, 64]);
  const logits = layer(batch.relu(layer(batch.relu(layer(x, 1)), 2)), 3);
  logits.named('logits').argmax(1).named('class');
  using recorded = await batch.compile();
  checks.that(/matmul\+add\+relu|linear/.test(recorded.explain()), recorded.explain());
  check('digits recorded here', await recorded.run({ pixels }));
}

/** The rows that the network was not trained on. */
function testRows(rows) {
  return rows.slice(-360);
}
