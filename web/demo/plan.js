// The plan of a program as a table: the predicted and the measured time of each kernel.

import { count, element, seconds } from './format.js';

/** Seconds for which a program is measured. */
const LONG_ENOUGH = 0.25;
const MOST_RUNS = 200;

/** The mean time of each kernel over many runs: the clock of a browser has coarse steps. */
async function measured(program, inputs) {
  // The first run compiles.
  await program.run(inputs);
  const kernels = [];
  const begin = performance.now();
  let runs = 0;
  do {
    const profile = await program.profile(inputs);
    runs += 1;
    profile.kernels.forEach((kernel, at) => {
      kernels[at] ??= { ...kernel, time: kernel.time === null ? null : 0 };
      if (kernel.time !== null) kernels[at].time += kernel.time;
    });
  } while (runs < MOST_RUNS && performance.now() - begin < 1000 * LONG_ENOUGH);
  for (const kernel of kernels) if (kernel.time !== null) kernel.time /= runs;
  return { kernels, runs };
}

/** Shows the plan of `program` in the page, measured with `inputs`. */
export async function showPlan(page, program, inputs) {
  const plan = program.plan();
  page.querySelector('#plan-text').textContent = plan.text;
  const { kernels, runs } = await measured(program, inputs);
  const operations = kernels.reduce((sum, { kernel }) => sum + kernel.split('+').length, 0);
  const total = (of) => kernels.reduce((sum, kernel) => sum + (of(kernel) ?? 0), 0);
  page.querySelector('#plan-summary').textContent =
    `${count(operations, 'operation')} run as ${count(kernels.length, 'kernel')}. ` +
    `Times are means of ${count(runs, 'run')}.`;
  const longest = Math.max(...kernels.flatMap(({ time, predicted }) => [time ?? 0, predicted]));
  const bar = (kind, time) => {
    const made = element('i', { class: kind });
    made.style.width = `${(100 * (time ?? 0)) / longest}%`;
    return made;
  };
  const rows = kernels.map(({ kernel, form, backend, time, predicted, outputs }) => {
    const shapes = outputs.map((shape) => shape.join('\u00a0×\u00a0')).join('; ');
    return element(
      'tr',
      {},
      element(
        'th',
        { scope: 'row' },
        kernel.replaceAll('+', ' + '),
        element('small', {}, `${backend.toUpperCase()}, ${form}, ${shapes}`),
        element('div', { class: 'bars', 'aria-hidden': 'true' }, bar('predicted', predicted), bar('measured', time)),
      ),
      element('td', { class: 'number' }, seconds(predicted)),
      element('td', { class: 'number' }, seconds(time)),
    );
  });
  page.querySelector('#plan tbody').replaceChildren(...rows);
  page.querySelector('#plan tfoot')?.remove();
  page.querySelector('#plan').append(
    element(
      'tfoot',
      {},
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, 'All kernels'),
        element('td', { class: 'number' }, seconds(total(({ predicted }) => predicted))),
        element('td', { class: 'number' }, seconds(kernels.some(({ time }) => time === null) ? null : total(({ time }) => time))),
      ),
    ),
  );
}
