// Programs with any number of rows.

const FEATURES = 3;

/** The program y = relu(x·w + b), each with its sum over all rows, recorded with `rows` rows. */
async function layer(device, rows) {
  using batch = device.batch();
  const w = batch.upload(new Float32Array([1, -2, 3, -4, 5, -6]), [FEATURES, 2]);
  const y = batch.input('x', [rows, FEATURES]).linear(w, batch.upload(new Float32Array([0.5, 1]))).relu();
  y.named('y').sum(0).named('total');
  return batch.compile();
}

/** The same in plain JavaScript. */
function reference(x) {
  const y = [];
  for (let at = 0; at < x.length; at += FEATURES) {
    const [a, b, c] = x.subarray(at, at + FEATURES);
    y.push(Math.max(a + 3 * b + 5 * c + 0.5, 0), Math.max(-2 * a - 4 * b - 6 * c + 1, 0));
  }
  const total = [0, 1].map((column) => y.reduce((sum, value, at) => (at % 2 === column ? sum + value : sum), 0));
  return { y, total };
}

const isNear = (got, wanted, atol) =>
  got.length === wanted.length && wanted.every((value, at) => Math.abs(value - got[at]) <= atol);

export async function checkRows(checks, device) {
  using program = await layer(device, 4);
  const { recorded, outputs } = program.rows();
  checks.that(recorded === 4, `it was recorded with ${recorded} rows`);
  const wanted = [
    { name: 'y', kind: 'perRow', axis: 0 },
    { name: 'total', kind: 'sum', axis: null },
  ];
  checks.that(JSON.stringify(outputs) === JSON.stringify(wanted), `rows: ${JSON.stringify(outputs)}`);
  for (const rows of [0, 1, 3, 4, 5, 64, 1500]) {
    const x = Float32Array.from({ length: rows * FEATURES }, (_, at) => Math.sin(at));
    const got = await program.runRows({ x });
    const { y, total } = reference(x);
    checks.that(isNear(got.y, y, 1e-5), `${rows} rows: y is ${got.y.subarray(0, 4)}…`);
    checks.that(isNear(got.total, total, 1e-6 * rows * 8), `${rows} rows: the sum is ${got.total}, not ${total}`);
  }
  await checks.throws(() => program.runRows({ x: new Float32Array(4) }), /RowsError: .*4/, 'no whole number of rows');
  await checks.throws(() => program.run({ x: new Float32Array(FEATURES) }), /DataError: /, 'one row for `run`');
  using mixing = await (async () => {
    using batch = device.batch();
    batch.input('x', [4, FEATURES]).softmax(0).named('y');
    return batch.compile();
  })();
  await checks.throws(() => mixing.rows(), /RowsError: .*rows\.js:[1-9]/, 'rows that are mixed');
  await checks.throws(() => mixing.runRows({ x: new Float32Array(6) }), /RowsError: .*softmax/, 'a run that mixes rows');
}

/** An input that has no rows, beside one that has. */
export async function checkRowsOf(checks, device) {
  for (const shape of [[3], [1, 3]]) {
    using batch = device.batch();
    batch.input('q', [4, 3]).mul(batch.input('c', shape)).named('y').sum(0).named('total');
    using program = await batch.compile();
    const c = new Float32Array([1, 10, 100]);
    const all = () => program.runRows({ q: new Float32Array(6), c });
    await checks.throws(all, /RowsError: .*rows by `rowsOf`/, `rows of q and of c ${shape}`);
    for (const rowsOf of [['q'], ['c', 'q'], ['q']]) {
      const run = (rows) => program.runRows({ q: new Float32Array(3 * rows).fill(2), c }, { rowsOf });
      if (rowsOf.length > 1) {
        await checks.throws(() => run(2), /RowsError: /, `rows of ${rowsOf}`);
        continue;
      }
      for (const rows of [0, 1, 5]) {
        const { y, total } = await run(rows);
        const wanted = Array.from({ length: rows }, () => '2,20,200').join();
        checks.that(`${y}` === wanted && `${total}` === `${[2, 20, 200].map((one) => rows * one)}`, `${rows} rows: ${y}`);
      }
    }
    const { recorded, outputs } = program.rows({ rowsOf: ['q'] });
    checks.that(recorded === 4 && outputs[1].kind === 'sum', `rows of q: ${recorded} ${outputs[1].kind}`);
    await checks.throws(() => program.runRows({ c }, { rowsOf: ['z'] }), /DataError: .*"z".*"q"/, 'rows of no input');
    for (const rowsOf of ['q', [1], null, {}]) {
      await checks.throws(() => program.runRows({ c }, { rowsOf }), /TypeError: .*array of names/, `rows of ${rowsOf}`);
    }
  }
}

/** A hundred runs at once of one program, which is freed meanwhile. */
export async function checkRunsAtOnce(checks, device) {
  using batch = device.batch();
  const shares = batch.input('x', [4, 3]).softmax(1);
  shares.named('y').sum(0).named('total');
  const program = await batch.compile();
  const one = async (run) => {
    const rows = run % 9;
    const x = Float32Array.from({ length: 3 * rows }, (_, at) => at % 5);
    const { y, total } = rows === 4 && run % 2 ? await program.run({ x }) : await program.runRows({ x });
    return y.length === 3 * rows && Math.abs(total[0] + total[1] + total[2] - rows) < 1e-4;
  };
  const runs = Array.from({ length: 100 }, (_, run) => one(run));
  program.free();
  const right = (await Promise.all(runs)).filter((isRight) => isRight).length;
  checks.that(right === 100, `${right} of 100 runs at once are right`);
}

/** Plans and profiles as pictures: the browser's own parsers read them. */
export async function checkPictures(checks, device) {
  using program = await layer(device, 4);
  const plan = program.plan();
  const page = (text) => new DOMParser().parseFromString(text, 'text/html');
  const html = page(plan.toHtml());
  const cards = html.querySelectorAll('.card h4');
  const names = [...cards].map((card) => card.textContent.replace(/^\d+\. /, ''));
  checks.that(`${names}` === `${plan.kernels.map(({ kernel }) => kernel)}`, `the page has the kernels ${names}`);
  checks.that(html.querySelectorAll('.op').length >= 6, 'the page has the operations');
  checks.that(html.querySelectorAll('[data-head="measured"]').length === 0, 'a plan has no measured times');
  const svg = new DOMParser().parseFromString(plan.toSvg(), 'image/svg+xml');
  checks.that(svg.documentElement.localName === 'svg' && !svg.querySelector('parsererror'), 'the SVG is well-formed');
  const texts = svg.documentElement.textContent;
  checks.that(/relu/.test(texts) && /rows\.js:/.test(texts), `the SVG has the operations and places: ${texts}`);
  const profile = await program.profile({ x: new Float32Array(4 * FEATURES) });
  const measured = page(profile.toHtml()).querySelectorAll('td[data-head="measured"]');
  checks.that(measured.length === profile.kernels.length, `${measured.length} kernels are measured`);
  plan.free();
  checks.that(plan.kernels.length > 0, 'figures stay after `free`');
}
