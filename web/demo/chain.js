// A chain of elementwise operations as one batch, and as one call per operation.

import { count, digits, seconds, whole } from './format.js';
import { plot } from './plot.js';

/** The operations of the chain, in turns. */
const STEPS = [(x) => x.scale(0.75), (x) => x.add_scalar(0.5), (x) => x.relu()];
/** Milliseconds for which each side of each point is measured. */
const LONG_ENOUGH = 40;
const MOST_RUNS = 40;

/** A program of the steps from `first` on, `length` of them. */
async function chain(device, elements, first, length) {
  const batch = device.batch();
  try {
    let x = batch.input('x', elements);
    for (let at = first; at < first + length; at += 1) x = STEPS[at % STEPS.length](x);
    x.named('y');
    return await batch.compile();
  } finally {
    batch.free();
  }
}

const batched = (program) => async (x) => (await program.run({ x })).y;
const single = (programs, length) => async (x) => {
  let y = x;
  for (let at = 0; at < length; at += 1) ({ y } = await programs[at % STEPS.length].run({ x: y }));
  return y;
};

/** The mean seconds of a call. */
async function time(call, x) {
  await call(x);
  const begin = performance.now();
  let runs = 0;
  do {
    await call(x);
    runs += 1;
  } while (runs < MOST_RUNS && performance.now() - begin < LONG_ENOUGH);
  return (performance.now() - begin) / 1000 / runs;
}

/** Lengths to measure: powers of two up to `length`, and itself. */
function lengths(length) {
  const all = [];
  for (let one = 1; one < length; one *= 2) all.push(one);
  return [...all, length];
}

/** The sliders and the plot. A change of a slider ends a measurement under way. */
export class ChainView {
  #page;
  #device;
  #turn = 0;
  #waits;

  constructor(page) {
    this.#page = page;
    for (const id of ['length', 'elements']) {
      page.querySelector(`#${id}`).addEventListener('input', () => {
        this.#label();
        clearTimeout(this.#waits);
        this.#waits = setTimeout(() => this.#measure(), 150);
      });
    }
    this.#label();
  }

  /** Measures on `device` from now on. */
  use(device) {
    this.#device = device;
    return this.#measure();
  }

  /** Ends the measurement under way. */
  stop() {
    this.#turn += 1;
  }

  get #chosen() {
    const value = (id) => Number(this.#page.querySelector(`#${id}`).value);
    return { length: value('length'), elements: 2 ** value('elements') };
  }

  #label() {
    const { length, elements } = this.#chosen;
    this.#page.querySelector('#length-value').textContent = length;
    this.#page.querySelector('#elements-value').textContent = whole(elements);
  }

  async #measure() {
    if (!this.#device) return;
    this.#turn += 1;
    const turn = this.#turn;
    const isOver = () => turn !== this.#turn;
    try {
      await this.#points(this.#device, this.#chosen, isOver);
    } catch (error) {
      if (!isOver()) this.#say('#chain-result', error.message);
    }
  }

  #say(where, text) {
    this.#page.querySelector(where).textContent = text;
  }

  async #points(device, { length, elements }, isOver) {
    const x = Float32Array.from({ length: elements }, (_, at) => Math.sin(at));
    const programs = await Promise.all(STEPS.map((_, first) => chain(device, elements, first, 1)));
    const lines = [
      { kind: 'single', name: 'one call per operation', points: [] },
      { kind: 'batched', name: 'one batch', points: [] },
    ];
    this.#say('#chain-result', 'Measuring…');
    let program;
    try {
      for (const one of lengths(length)) {
        program?.free();
        program = await chain(device, elements, 0, one);
        const calls = [single(programs, one), batched(program)];
        for (const [at, call] of calls.entries()) {
          lines[at].points.push([one, await time(call, x)]);
          // The page stays alive.
          await new Promise((resolve) => setTimeout(resolve));
          if (isOver()) return;
        }
        plot(this.#page.querySelector('#plot'), lines, length);
        if (one === length) await this.#result(lines, calls, program, programs, x, length);
      }
    } finally {
      [program, ...programs].forEach((one) => one?.free());
    }
  }

  async #result(lines, calls, program, programs, x, length) {
    const [alone, together] = lines.map(({ points }) => points.at(-1)[1]);
    const [left, right] = [await calls[0](x), await calls[1](x)];
    const isSame = left.every((value, at) => Math.abs(value - right[at]) <= 1e-5);
    if (!isSame) throw new Error('The two ways differ in their results.');
    const factor = alone / together;
    this.#say(
      '#chain-result',
      `One batch: ${seconds(together)}. One call per operation: ${seconds(alone)}` +
        (factor >= 1.05 ? `, ${digits(factor)} times as long.` : '.'),
    );
    const { stats } = await program.profile({ x });
    let trips = 0;
    for (let at = 0; at < length; at += 1) {
      trips += (await programs[at % STEPS.length].profile({ x })).stats.submits;
    }
    this.#say(
      '#chain-trips',
      `Counted: ${count(stats.submits, 'round trip')} with ${count(stats.dispatches, 'kernel')} for the batch, ` +
        `${count(trips, 'round trip')} for the calls. The results are equal.`,
    );
  }
}
