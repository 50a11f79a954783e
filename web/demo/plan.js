// The plan of a program as a table: the predicted and the measured time of each kernel.

import { count, element, seconds } from './format.js';

/** Seconds for which a program runs before it is measured: browsers compile code anew while it runs. */
const WARM = 0.3;
/** Seconds for which a program is measured. */
const LONG_ENOUGH = 0.25;
const MOST_RUNS = 200;
/** Runs that tell how long one takes. */
const FEW_RUNS = 10;

/** The mean time of each kernel over many runs: the clock of a browser has coarse steps. */
async function measured(program, inputs) {
  const start = performance.now();
  do await program.run(inputs);
  while (performance.now() - start < 1000 * WARM);
  const begin = performance.now();
  (await program.profile(inputs, { runs: FEW_RUNS })).free();
  const one = Math.max(performance.now() - begin, 1) / 1000 / FEW_RUNS;
  const runs = Math.min(Math.ceil(LONG_ENOUGH / one), MOST_RUNS);
  return { profile: await program.profile(inputs, { runs }), runs };
}

/** A picture in the colours that the page has now: those that the visitor chose, or those of the system. */
function inColours(picture) {
  const chosen = document.documentElement.style.colorScheme;
  const isChosen = chosen === 'light' || chosen === 'dark';
  if (!isChosen) return picture;
  const media = chosen === 'dark' ? '@media all' : '@media not all';
  return picture
    .replaceAll('@media (prefers-color-scheme:dark)', media)
    .replace(':root{color-scheme:light dark;', `:root{color-scheme:${chosen};`);
}

/** The plan as pictures: the graph beside the table, and a page with all that there is to see. */
export class PlanView {
  #page;
  #profile;
  #graph;

  constructor(page) {
    this.#page = page;
    const picture = page.querySelector('#picture');
    page.querySelector('#whole-plan').addEventListener('click', () => {
      if (!this.#profile) return;
      page.querySelector('#picture iframe').srcdoc = inColours(this.#profile.toHtml());
      picture.showModal();
    });
    picture.addEventListener('close', () => page.querySelector('#picture iframe').removeAttribute('srcdoc'));
  }

  /** Draws the graph in the colours of the page. */
  paint() {
    if (!this.#graph) return;
    this.#page.querySelector('#graph').src = `data:image/svg+xml,${encodeURIComponent(inColours(this.#graph))}`;
  }

  /** Shows the plan of `program`, measured with `inputs`. Its predictions are by figures that were `measured`, or not. */
  async show(program, inputs, isMeasured) {
    const plan = program.plan();
    this.#page.querySelector('#plan-text').textContent = plan.text;
    this.#graph = plan.toSvg();
    this.paint();
    plan.free();
    const { profile, runs } = await measured(program, inputs);
    this.#profile?.free();
    this.#profile = profile;
    const operations = this.#graph.match(/class="op /g)?.length ?? 0;
    this.#page.querySelector('#plan-summary').textContent =
      `${count(operations, 'recorded operation')}, data among them, run as ${count(profile.kernels.length, 'kernel')}. ` +
      `Measured times are means of ${count(runs, 'run')}. ` +
      `Predictions are by ${isMeasured ? 'figures measured on this device' : 'typical figures, until this device is measured below'}.`;
    showTable(this.#page, profile.kernels);
  }
}

function showTable(page, kernels) {
  const total = (of) => kernels.reduce((sum, kernel) => sum + (of(kernel) ?? 0), 0);
  const longest = Math.max(...kernels.flatMap(({ time, predicted }) => [time ?? 0, predicted]));
  const bar = (kind, time) => {
    const made = element('i', { class: kind });
    made.style.width = `${(100 * (time ?? 0)) / longest}%`;
    return made;
  };
  const rows = kernels.map(({ kernel, form, backend, time, predicted, outputs }) => {
    const shapes = outputs.map((shape) => shape.join('\u00a0× ')).join('; ');
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
