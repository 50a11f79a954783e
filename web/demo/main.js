// The demo page: a network that reads drawn digits, its plan, and the price of round trips.

import { Device, Program } from './package/index.js';
import { ChainView } from './chain.js';
import { showDevice } from './device.js';
import { element, seconds } from './format.js';
import { ImageView } from './image.js';
import { Pad } from './pad.js';
import { PlanView } from './plan.js';
import { pixels } from './strokes.js';

const $ = (selector) => document.querySelector(selector);
const NETWORK = new URL('drawn_digits.safetensors', import.meta.url);
/** A five, as somebody may draw it. */
const EXAMPLE = [
  [[0.66, 0.2], [0.36, 0.21], [0.34, 0.46], [0.42, 0.43], [0.54, 0.43], [0.63, 0.5], [0.66, 0.6], [0.63, 0.71], [0.53, 0.79], [0.4, 0.79], [0.31, 0.74]],
];

/** The device and the program of the network; both change with the visitor's choice. */
let device;
let network;
/** The choice of which `device` is. */
let chosen = 'auto';
let waiting;
let isReading = false;

const bars = Array.from({ length: 10 }, (_, digit) => {
  const bar = element('i');
  const part = element('span', { class: 'part' }, '–');
  const row = element('li', {}, element('span', {}, String(digit)), element('span', { class: 'bar' }, bar), part);
  return { row, bar, part };
});
$('#confidences').append(...bars.map(({ row }) => row));

function showPixels(picture) {
  const context = $('#seen').getContext('2d');
  context.clearRect(0, 0, 8, 8);
  context.fillStyle = getComputedStyle($('#seen')).color;
  picture?.forEach((ink, at) => {
    context.globalAlpha = ink;
    context.fillRect(at % 8, Math.floor(at / 8), 1, 1);
  });
}

function showAnswer(confidences) {
  const best = confidences ? confidences.indexOf(Math.max(...confidences)) : -1;
  bars.forEach(({ row, bar, part }, digit) => {
    row.classList.toggle('best', digit === best);
    bar.style.width = confidences ? `${100 * confidences[digit]}%` : '0';
    part.textContent = confidences ? `${(100 * confidences[digit]).toFixed(1)}%` : '–';
  });
  const text = best < 0 ? '–' : String(best);
  if ($('#answer').textContent !== text) $('#answer').textContent = text;
  if (best < 0) $('#time').textContent = '';
}

/** Reads the newest strokes, one run at a time. */
async function read(strokes) {
  waiting = strokes;
  if (isReading || !network) return;
  isReading = true;
  try {
    while (waiting) {
      const picture = pixels(waiting);
      waiting = undefined;
      showPixels(picture);
      if (!picture) {
        showAnswer();
        continue;
      }
      const begin = performance.now();
      const { confidence } = await network.run({ pixels: picture });
      const time = (performance.now() - begin) / 1000;
      showAnswer([...confidence]);
      $('#time').textContent = `Read in one trip, ${seconds(time)} with the answer back in JavaScript.`;
    }
  } catch (error) {
    failed(error);
  } finally {
    isReading = false;
  }
}

let drawn = [];
const pad = new Pad($('#pad'), (strokes) => {
  drawn = strokes;
  read(strokes);
});
const chain = new ChainView(document);
const plan = new PlanView(document);
const image = new ImageView(document, (url) => Program.load(device, url));

function failed(error) {
  $('#status').textContent = error.message;
  $('#status').classList.add('failed');
}

// A panic settles no promise: it comes as this event alone.
addEventListener('error', ({ error, message }) => failed(error ?? { message }));

const CONTROLS = ['#side', '#measure-plan', '#whole-plan', '#calibrate', '#double'].map($);

/** Runs `work` with the controls off: it is not asked for twice, and no device is exchanged under it. */
async function once(work) {
  CONTROLS.forEach((one) => (one.disabled = true));
  try {
    await work();
  } catch (error) {
    failed(error);
  } finally {
    CONTROLS.forEach((one) => (one.disabled = false));
  }
}

const measurePlan = () => plan.show(network, { pixels: pixels(EXAMPLE) }, device.profile().measured);

/** Opens the device that the visitor chose, and shows all on it. */
async function open() {
  const asked = $('#side').value;
  // What was shown holds until the new device is open.
  $('#side').value = chosen;
  $('#status').classList.remove('failed');
  $('#status').textContent = 'Opening the device…';
  chain.stop();
  const begin = performance.now();
  const opened = await Device[asked]();
  const loaded = await Program.load(opened, NETWORK);
  const old = [network, device];
  [device, network, chosen] = [opened, loaded, asked];
  $('#side').value = chosen;
  await read(drawn);
  image.close();
  old.forEach((one) => one?.free());
  const info = device.info();
  $('#status').textContent =
    `${info.isGpu ? `WebGPU: ${info.name || 'a GPU'}` : 'CPU: WebAssembly on one thread'}, ` +
    `network loaded ${seconds((performance.now() - begin) / 1000)} after the choice.`;
  await measurePlan();
  showDevice(document, device, chosen);
  await chain.use(device);
}

$('#undo').addEventListener('click', () => pad.undo());
$('#clear').addEventListener('click', () => pad.clear());
$('#example').addEventListener('click', () => pad.set(structuredClone(EXAMPLE)));
$('#measure-plan').addEventListener('click', () => once(measurePlan));
$('#calibrate').addEventListener('click', () =>
  once(async () => {
    chain.stop();
    await device.calibrate();
    showDevice(document, device, chosen);
    await measurePlan();
    await chain.use(device);
  }),
);
$('#double').addEventListener('click', () => once(() => image.double()));
$('#side').addEventListener('change', () => once(open));

function paint() {
  pad.paint();
  plan.paint();
  showPixels(pixels(drawn));
}
$('#theme').addEventListener('change', () => {
  document.documentElement.style.colorScheme = $('#theme').value;
  paint();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint);

const wanted = new URL(location.href).searchParams.get('device');
if (['auto', 'cpu', 'gpu'].includes(wanted)) $('#side').value = wanted;
await once(open);
document.documentElement.dataset.ready = 'true';
