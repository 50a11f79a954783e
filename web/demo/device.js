// What the device is, and the side that Auto takes for some graphs.

import { element, seconds } from './format.js';

/** The figures of the plan of a batch with all that `record(batch)` records. */
function figures(device, record) {
  const batch = device.batch();
  try {
    record(batch);
    const plan = batch.plan();
    plan.free();
    return plan;
  } finally {
    batch.free();
  }
}

const chain = (elements) => (batch) => {
  let x = batch.input('x', elements);
  for (let at = 0; at < 8; at += 1) x = x.scale(0.75).tanh();
};
const product = (size) => (batch) => batch.input('x', [size, size]).matmul(batch.input('w', [size, size]));

/** Graphs by a name whose lines end with no part of a number. */
const GRAPHS = [
  ['8 × (scale, tanh) of 1 024 elements', chain(1024)],
  ['8 × (scale, tanh) of 1 048 576 elements', chain(2 ** 20)],
  ['matrix product, 64 × 64', product(64)],
  ['matrix product, 512 × 512', product(512)],
  ['matrix product, 2 048 × 2 048', product(2048)],
  ['softmax of 1 024 rows of 1 024', (batch) => batch.input('x', [1024, 1024]).softmax(1)],
].map(([name, record]) => [name.replace(/(?<=\d) (?=\d{3}|×)/g, '\u00a0'), record]);

/** Shows the device in the page. `asked` is the choice of the visitor. */
export function showDevice(page, device, asked) {
  const info = device.info();
  const { measured } = device.profile();
  const facts = [
    ['Name', info.isGpu ? info.name || 'not told by the browser' : 'WebAssembly on one thread'],
    ['Interface', info.isGpu ? 'WebGPU' : 'CPU'],
    ['Driver', info.isGpu ? info.driver : ''],
    ['Software', info.software ? 'yes: this GPU is emulated on the CPU' : ''],
    ['No GPU', info.fallback?.replaceAll('`', '') ?? ''],
    ['WebGPU', navigator.gpu ? 'known to this browser' : 'not known to this browser'],
    ['Figures', measured ? 'measured on this device' : 'typical ones, not measured yet'],
  ];
  const shown = facts.filter(([, value]) => value);
  page.querySelector('#device').replaceChildren(
    ...shown.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]),
  );
  page.querySelector('#sides-note').textContent = {
    auto: info.isGpu
      ? 'Auto compares the predicted times of both sides, transfers included.'
      : 'Auto found no GPU in hardware, so that it takes the CPU for all graphs.',
    cpu: 'The CPU was chosen above for all graphs.',
    gpu: 'The GPU was chosen above for all graphs.',
  }[asked];
  const rows = GRAPHS.map(([name, record]) => {
    const { backend, predictions } = figures(device, record);
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, name),
      element('td', { class: 'number' }, seconds(predictions.cpu)),
      element('td', { class: 'number' }, seconds(predictions.gpu)),
      element('td', {}, backend.toUpperCase()),
    );
  });
  page.querySelector('#sides tbody').replaceChildren(...rows);
}
