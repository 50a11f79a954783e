// node measure.mjs SITE [cpu] [gpu]: opens the pages of figures in headless Chromium, and prints a table: the load of the
// page with a warm cache, recording, and the counts of objects and bytes after 10 000 runs. DRIVER names the folder with
// playwright-core.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { CHROMIUM } from './browsers.mjs';
import { serve } from './serve.mjs';

const { chromium } = createRequire(path.join(path.resolve(process.env.DRIVER), 'package.json'))('playwright-core');
const [site, ...asked] = process.argv.slice(2);
/** Loads of a page; the first one fills the cache. */
const LOADS = 8;
const RUNS = 10_000;
const DEVICES = {
  cpu: ['--disable-features=WebGPU'],
  gpu: ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'],
};

const { server, address } = await serve(site, undefined, 3600);

/** Calls `steps` with a function that opens a page and gives its figures. All pages have one cache. */
async function visitor(device, steps) {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'onetrip-measure-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? 'chromium',
    args: [...CHROMIUM, ...DEVICES[device]],
    chromiumSandbox: false,
  });
  try {
    await steps(async (query) => {
      const page = await context.newPage();
      page.setDefaultTimeout(600_000);
      const broken = new Promise((_, reject) => page.on('pageerror', reject));
      await page.goto(`${address}/test/measure.html?device=${device}&${query}`);
      const figures = page.waitForFunction(() => globalThis.figures).then((found) => found.jsonValue());
      const found = await Promise.race([figures, broken]);
      await page.close();
      return found;
    });
  } finally {
    await context.close();
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
const milliseconds = (number) => `${number.toFixed(0)} ms`;

/** The steps of a load. */
function steps({ script, webAssembly, device, program, first, second, again }) {
  return {
    'the page and its scripts': script,
    'the WebAssembly': webAssembly - script,
    'the device': device - webAssembly,
    'the program with its kernels compiled': program - device,
    'of it without compiling, as it is loaded again': again - second,
    'the first run': first - program,
    'all of this, to the first prediction': first,
    'a second run': second - first,
  };
}

for (const device of asked.length ? asked : Object.keys(DEVICES)) {
  await visitor(device, async (open) => {
    const loads = [];
    for (let time = 0; time < LOADS; time += 1) loads.push(steps(await open('what=load')));
    const [cold, ...warm] = loads;
    console.log(`${device}: load, cold / warm (median of ${warm.length}) / least`);
    for (const [step, time] of Object.entries(cold)) {
      const times = warm.map((load) => load[step]);
      console.log(`  ${step}: ${[time, median(times), Math.min(...times)].map(milliseconds).join(' / ')}`);
    }
    if (device === 'cpu') {
      const figures = Object.entries(await open('what=recording'));
      console.log(`recording, ns an operation: ${figures.map(([name, time]) => `${name} ${time}`).join(', ')}`);
    }
    const { before, after } = await open(`what=leaks&runs=${RUNS}`);
    const counts = Object.keys(before).map((name) => `${name} ${before[name]} → ${after[name]}`);
    console.log(`${device}: ${RUNS} runs: ${counts.join(', ')}`);
  });
}
server.close();
