// node demo.mjs SITE [flags of Chromium]: opens the demo page in SITE as a visitor: draws by mouse, finger and keyboard,
// moves the sliders, and reads what the page answers. SCREENSHOTS names a folder for pictures of the page. DRIVER names
// the folder with playwright-core.

import { createRequire } from 'node:module';
import path from 'node:path';
import { serve } from './serve.mjs';

const { chromium } = createRequire(path.join(path.resolve(process.env.DRIVER), 'package.json'))('playwright-core');
const [site, ...flags] = process.argv.slice(2);
/** Milliseconds that a slow machine needs for the longest step. */
const PATIENCE = 180_000;
const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };

/** Digits as somebody draws them. They are none of the strokes that the network learned from. */
const DIGITS = [
  [[[48, 22], [36, 28], [31, 45], [33, 64], [44, 76], [57, 74], [66, 60], [67, 42], [61, 27], [50, 22]]],
  [[[42, 30], [52, 20], [52, 50], [51, 80]]],
  [[[33, 34], [38, 24], [50, 21], [61, 27], [62, 40], [54, 54], [42, 68], [33, 78], [48, 77], [67, 78]]],
  [[[34, 26], [48, 20], [61, 27], [60, 40], [48, 48], [62, 54], [66, 67], [56, 78], [40, 79], [31, 72]]],
  [[[40, 20], [36, 38], [32, 55], [50, 55], [68, 54]], [[58, 38], [57, 60], [56, 80]]],
  [[[64, 21], [38, 22], [36, 46], [50, 44], [62, 52], [64, 66], [54, 78], [34, 76]]],
  [[[60, 20], [46, 32], [36, 50], [34, 68], [44, 79], [58, 77], [64, 65], [56, 55], [44, 56], [36, 66]]],
  [[[31, 22], [50, 22], [68, 21], [60, 40], [52, 58], [47, 80]]],
  [[[60, 28], [48, 20], [38, 28], [42, 40], [56, 52], [64, 66], [54, 79], [40, 76], [36, 62], [48, 48], [60, 36], [61, 29]]],
  [[[62, 34], [54, 22], [41, 24], [37, 37], [45, 48], [57, 45], [62, 34], [62, 50], [60, 66], [58, 80]]],
];

/** Pixels of the doubled flower, as TensorFlow.js has them: row, column, red, green, blue. */
const FLOWER = [
  [7, 11, 38, 63, 1], [7, 72, 109, 84, 66], [7, 133, 251, 91, 56], [7, 194, 32, 17, 6], [7, 255, 25, 21, 7],
  [70, 11, 69, 102, 18], [70, 72, 240, 47, 10], [70, 133, 248, 76, 40], [70, 194, 242, 38, 5], [70, 255, 48, 42, 20],
  [133, 11, 249, 95, 64], [133, 72, 249, 53, 19], [133, 133, 196, 18, 5], [133, 194, 251, 71, 32], [133, 255, 48, 45, 18],
  [196, 11, 93, 111, 95], [196, 72, 237, 132, 110], [196, 133, 246, 50, 9], [196, 194, 248, 58, 19], [196, 255, 48, 42, 18],
];

let passed = 0;
const failed = [];
function check(isSo, text) {
  if (isSo) passed += 1;
  else failed.push(text);
}

const { server, address } = await serve(site);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? 'chromium',
  args: ['--disable-quic', '--disable-dev-shm-usage', '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', ...flags],
  chromiumSandbox: false,
});

/** Opens the page for a visitor, and takes the `steps`. */
async function visit(name, { query = '', ...options }, steps) {
  const begin = Date.now();
  const before = passed;
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on('request', (request) => {
    const isHere = request.url().startsWith(address) || /^(data|blob):/.test(request.url());
    if (!isHere) failed.push(`${name}: the page asks for ${request.url()}`);
  });
  // An error that nothing catches ends the visit at once.
  const broken = new Promise((_, reject) => {
    page.on('pageerror', reject);
    page.on('crash', () => reject(new Error('the page crashed')));
  });
  page.on('console', (message) => {
    if (message.type() === 'error') failed.push(`${name}: console: ${message.text()}`);
  });
  const visited = async () => {
    await page.goto(`${address}/${query}`);
    await page.waitForSelector('html[data-ready]', { state: 'attached' });
    await steps(page, await page.textContent('#status'));
    const { scroll, inner } = await page.evaluate(() => ({ scroll: document.documentElement.scrollWidth, inner: innerWidth }));
    check(scroll <= inner, `${name}: the page is ${scroll} wide, the window ${inner}`);
  };
  try {
    await Promise.race([visited(), broken]);
  } catch (error) {
    failed.push(`${name}: ${error.message}`);
  } finally {
    await context.close();
  }
  console.log(`demo, ${name}: ${passed - before} passed in ${((Date.now() - begin) / 1000).toFixed(1)} s`);
}

async function picture(page, name) {
  const folder = process.env.SCREENSHOTS;
  if (folder) await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true });
}

/** The positions of a digit's strokes on the pad of `page`. */
async function positions(page, digit) {
  const pad = page.locator('#pad');
  await pad.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await pad.boundingBox();
  return DIGITS[digit].map((stroke) => stroke.map(([u, v]) => [x + (u / 100) * width, y + (v / 100) * height]));
}

/** Clears the pad by `press`. A finger that a busy page notices late counts as a long press, which is none. */
async function cleared(page, press) {
  for (let time = 0; time < 5; time += 1) {
    await press();
    const isClear = page.waitForFunction(() => document.querySelector('#answer').textContent === '–', null, { timeout: 5000 });
    if (await isClear.then(() => true, () => false)) return;
  }
  failed.push('the pad is not cleared');
}

async function drawByMouse(page, digit) {
  await cleared(page, () => page.click('#clear'));
  for (const [first, ...rest] of await positions(page, digit)) {
    await page.mouse.move(...first);
    await page.mouse.down();
    for (const point of rest) await page.mouse.move(...point, { steps: 4 });
    await page.mouse.up();
  }
}

async function drawByFinger(page, digit) {
  const touches = await page.context().newCDPSession(page);
  await cleared(page, () => page.tap('#clear'));
  const send = (type, points) =>
    touches.send('Input.dispatchTouchEvent', { type, touchPoints: points.map(([x, y]) => ({ x, y })) });
  for (const [first, ...rest] of await positions(page, digit)) {
    await send('touchStart', [first]);
    for (const point of rest) await send('touchMove', [point]);
    await send('touchEnd', []);
  }
}

/** The page answers `digit` in the end. */
async function answers(page, digit, what) {
  const isIt = page.waitForFunction((wanted) => document.querySelector('#answer').textContent === wanted, String(digit), { timeout: 15_000 });
  const came = await isIt.then(() => true, () => false);
  const confidences = await page.locator('#confidences .part').allTextContents();
  check(came, `${what}: ${digit} is read as ${await page.textContent('#answer')} (${confidences.join(' ')})`);
  if (came && digit !== '–') {
    const all = confidences.reduce((sum, text) => sum + parseFloat(text), 0);
    check(Math.abs(all - 100) < 1, `${what}: the confidences add up to ${all} %`);
  }
}

async function checkPlan(page, side) {
  const rows = await page.locator('#plan tbody tr').allTextContents();
  check(rows.length >= 3 && rows.length <= 12, `the plan has ${rows.length} kernels`);
  check(rows.some((row) => /matmul.*relu/.test(row)), `the plan: ${rows.join(' | ')}`);
  check(rows.every((row) => row.includes(side)), `not all on ${side}: ${rows.join(' | ')}`);
  const times = await page.locator('#plan tbody .number').allTextContents();
  check(times.every((time) => /^[0-9.]+ (µs|ms|s)$/.test(time)), `times of kernels: ${times.join(', ')}`);
  const drawn = await page.evaluate(() => document.querySelector('#graph').decode().then(() => document.querySelector('#graph').naturalHeight, String));
  check(drawn > 300, `the graph is drawn ${drawn} pixels high`);
  await page.click('#whole-plan');
  const whole = page.frameLocator('#picture iframe');
  await whole.locator('.card').first().waitFor();
  check((await whole.locator('.card').count()) === rows.length, 'the whole plan has all kernels');
  const cells = await whole.locator('td[data-head="measured"]').allTextContents();
  check(cells.length === rows.length && cells.every((time) => /^[0-9.]+ (ns|µs|ms|s)$/.test(time)), `measured: ${cells.join(', ')}`);
  await whole.locator('#k1').hover();
  const own = await whole.locator('.lit').count();
  check(own > 1, `a kernel under the pointer lights up ${own} elements`);
  const heading = await whole.locator('section', { hasText: 'The recorded graph' }).first().textContent();
  const [counted] = (await page.textContent('#plan-summary')).match(/^[0-9]+/);
  check(heading.includes(`${counted} operations`), `the page counts ${counted} operations, and the whole plan: ${heading.slice(0, 60)}`);
  await picture(page, `whole-plan-${side}`);
  await page.keyboard.press('Escape');
  check(await page.locator('#picture').isHidden(), 'Escape closes the whole plan');
}

/** Sets a slider by the keyboard. */
async function slide(page, id, value) {
  const slider = page.locator(`#${id}`);
  await slider.focus();
  for (let now = Number(await slider.inputValue()); now !== value; now += Math.sign(value - now)) {
    await page.keyboard.press(now < value ? 'ArrowRight' : 'ArrowLeft');
  }
}

async function checkChain(page, length) {
  await slide(page, 'elements', 10);
  await slide(page, 'length', length);
  const text = new RegExp(`Counted: 1 round trip with 1 kernel for the batch, ${length} round trips for the calls\\. The results are equal\\.`);
  await page.waitForFunction((source) => new RegExp(source).test(document.querySelector('#chain-trips').textContent), text.source);
  check(/One batch: .* One call per operation: /.test(await page.textContent('#chain-result')), 'the result of the chain');
  check((await page.locator('#plot polyline').count()) === 2, 'the plot has two lines');
}

async function checkImage(page) {
  await page.click('#double');
  await page.waitForFunction(() => document.querySelector('#image-result').textContent.startsWith('Doubled in'));
  const found = await page.evaluate(
    (places) => places.map(([row, column]) => [...document.querySelector('#after').getContext('2d').getImageData(column, row, 1, 1).data]),
    FLOWER,
  );
  FLOWER.forEach(([row, column, ...wanted], at) => {
    const isNear = wanted.every((value, channel) => Math.abs(value - found[at][channel]) <= 1);
    check(isNear, `the doubled image has ${found[at]} in row ${row}, column ${column}, not ${wanted}`);
  });
}

await visit('CPU, desktop', { colorScheme: 'light' }, async (page, status) => {
  check(/CPU: WebAssembly/.test(status), `the status is ${status}`);
  for (const digit of DIGITS.keys()) {
    await drawByMouse(page, digit);
    await answers(page, digit, 'mouse');
  }
  await checkPlan(page, 'CPU');
  await checkChain(page, 12);
  check((await page.locator('#sides tbody tr').count()) === 6, 'graphs with their sides');
  await checkImage(page);
  await page.click('#calibrate');
  await page.waitForFunction(() => document.querySelector('#device').textContent.includes('measured on this device'));
  await page.waitForSelector('#calibrate:not(:disabled)');
  await picture(page, 'desktop-light');
  await page.selectOption('#theme', 'dark');
  await picture(page, 'desktop-dark');
});

/** The whole plan has the colours that the visitor chose, though the system has others. */
for (const [system, chosen] of [['dark', 'light'], ['light', 'dark'], ['dark', 'light dark']]) {
  await visit(`colours ${chosen} on ${system}`, { colorScheme: system }, async (page) => {
    await page.selectOption('#theme', chosen);
    await page.click('#whole-plan');
    const body = page.frameLocator('#picture iframe').locator('body');
    await body.locator('.card').first().waitFor();
    const brightness = await body.evaluate((node) => {
      const [, red] = getComputedStyle(node).backgroundColor.match(/(\d+)/);
      return Number(red);
    });
    const isDark = chosen === 'dark' || (chosen !== 'light' && system === 'dark');
    check(isDark ? brightness < 60 : brightness > 200, `the whole plan has a brightness of ${brightness}`);
    await picture(page, `whole-plan-${chosen.replace(' ', '-')}-on-${system}`);
  });
}

await visit('CPU, keyboard', { query: '?device=cpu' }, async (page) => {
  await page.focus('#pad');
  await page.keyboard.press('Space');
  for (let step = 0; step < 14; step += 1) await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Space');
  await answers(page, 1, 'keyboard');
  await page.keyboard.press('Escape');
  await answers(page, '–', 'cleared');
  await page.click('#example');
  await answers(page, 5, 'example');
  await page.click('#undo');
  await answers(page, '–', 'undone');
});

const phone = { viewport: PHONE, hasTouch: true, isMobile: true, deviceScaleFactor: 2, colorScheme: 'dark' };
await visit('CPU, phone', phone, async (page) => {
  for (const digit of [3, 7]) {
    await drawByFinger(page, digit);
    await answers(page, digit, 'finger');
  }
  await picture(page, 'phone-dark');
  await page.selectOption('#theme', 'light');
  await picture(page, 'phone-light');
});

await visit('CPU, narrow', { viewport: { width: 320, height: 700 }, hasTouch: true, isMobile: true }, async (page) => {
  await picture(page, 'narrow');
  check(!(await page.textContent('#device')).includes('`'), 'the facts of the device have no marks of code');
});

await visit('WebGPU', { query: '?device=gpu' }, async (page, status) => {
  check(/WebGPU: /.test(status), `the status is ${status}`);
  await drawByMouse(page, 2);
  await answers(page, 2, 'on the GPU');
  await checkPlan(page, 'GPU');
  await checkChain(page, 3);
  await picture(page, 'gpu');
});

await browser.close();
server.close();
failed.forEach((text) => console.log(`FAILED demo: ${text}`));
console.log(`${passed} passed, ${failed.length} failed`);
process.exit(failed.length === 0 && passed > 0 ? 0 : 1);
