// The package against values of NumPy, SciPy and PyTorch, and what only a browser shows. The address says which device
// is tested: `?device=gpu`, `?device=cpu`, or `?device=none` for a browser without WebGPU. `?device=uncaught` tests the end
// by an error. On WebGPU a few cases of each operation run; with `&few` none, with `&all` all, and leaks are looked for in
// 10 000 runs.

import { Device, registry } from '/package/index.js';
import { checkCompiled, checkFiles } from './files.js';
import { checkDigits } from './digits.js';
import { checkLateErrors, checkLoss, checkNoGpu } from './devices.js';
import { checkLeaks } from './leaks.js';
import { checkArguments, checkDamagedFiles, checkFailures, checkFreed, checkViews } from './misuse.js';
import { checkBundle, checkCalibration, checkCasts, checkMeans, checkWords } from './messages.js';
import { checkMarkup, checkNames, checkOutputs } from './names.js';
import { checkReadme } from './readme.js';
import { checkFinalizers, checkMemory, checkMistakes, checkRecorded } from './recording.js';
import { checkPictures, checkRows, checkRowsOf, checkRunsAtOnce } from './rows.js';

const { searchParams } = new URL(location.href);
const device = searchParams.get('device');
const RUNS = searchParams.has('all') ? 10_000 : 500;
// The script `ends.js` defines both.
const { result, end } = globalThis;

/** Collects checks: each is passed, or failed with a text. */
const checks = {
  pass() {
    result.passed += 1;
  },
  fail(text) {
    result.failed.push(text);
  },
  that(isSo, text) {
    if (isSo) this.pass();
    else this.fail(text);
  },
  async throws(call, pattern, what) {
    try {
      await call();
    } catch (error) {
      const isOfClass = error instanceof (globalThis[error.name] ?? Error);
      const text = `${error.name}: ${error.message}`;
      return this.that(isOfClass && pattern.test(text), `${what}: ${text}`);
    }
    return this.fail(`${what}: nothing was thrown`);
  },
};

const leaks = async (on) => log(await checkLeaks(checks, on, RUNS));
const log = (text) => fetch('/log', { method: 'POST', body: text });

async function part(name, run) {
  const [start, before] = [performance.now(), result.passed];
  try {
    await run();
  } catch (error) {
    checks.fail(`${name}: ${error.stack ?? error}`);
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  await log(`${device}: ${name}: ${result.passed - before} passed in ${seconds} s`);
}

const PARTS = {
  async cpu() {
    const cpu = await Device.cpu();
    await part('files', () => checkFiles(checks, cpu));
    await part('every operation', async () => {
      const files = await (await fetch('/cases/cases.json')).json();
      const known = new Set(files.map((file) => file.operation));
      (await registry()).forEach((name) => checks.that(known.has(name), `no case for ${name}`));
    });
    await part('recorded', () => checkRecorded(checks, cpu));
    await part('mistakes', () => checkMistakes(checks, cpu));
    await part('arguments', () => checkArguments(checks, cpu));
    await part('views', () => checkViews(checks, cpu));
    await part('freed objects', () => checkFreed(checks, cpu));
    await part('names', () => checkNames(checks, cpu));
    await part('outputs without a name', () => checkOutputs(checks, cpu));
    await part('words of messages', () => checkWords(checks, cpu));
    await part('casts', () => checkCasts(checks, cpu));
    await part('places in a bundle', () => checkBundle(checks));
    await part('means of profiles', () => checkMeans(checks, cpu));
    await part('calibration', () => checkCalibration(checks));
    await part('markup', () => checkMarkup(checks, cpu));
    await part('damaged files', () => checkDamagedFiles(checks, cpu));
    await part('failing calls', () => checkFailures(checks, cpu));
    await part('digits', () => checkDigits(checks, cpu));
    await part('rows', () => checkRows(checks, cpu));
    await part('rows of some inputs', () => checkRowsOf(checks, cpu));
    await part('runs at once', () => checkRunsAtOnce(checks, cpu));
    await part('pictures', () => checkPictures(checks, cpu));
    await part('page of the README', () => checkReadme(checks));
    await part('memory', () => checkMemory(checks, cpu));
    if (globalThis.gc) {
      await part('finalizers', () => checkFinalizers(checks, cpu));
      await part('leaks', () => leaks(cpu));
    }
  },
  async gpu() {
    const gpu = await Device.gpu();
    await log(JSON.stringify(gpu.info()));
    checks.that(gpu.info().isGpu, 'it is a GPU');
    await part('large kernels', () => checkCompiled(checks, gpu));
    if (!searchParams.has('few')) await part('files', () => checkFiles(checks, gpu, !searchParams.has('all')));
    await part('digits', () => checkDigits(checks, gpu));
    await part('rows', () => checkRows(checks, gpu));
    await part('runs at once', () => checkRunsAtOnce(checks, gpu));
    await part('pictures', () => checkPictures(checks, gpu));
    if (globalThis.gc) await part('leaks', () => leaks(gpu));
    await part('late errors', () => checkLateErrors(checks, gpu));
    await part('lost device', () => checkLoss(checks));
  },
  async none() {
    await part('no GPU', () => checkNoGpu(checks));
    await part('digits', async () => checkDigits(checks, await Device.auto()));
  },
  /** A run that never ends by itself. Its error ends it. */
  async uncaught() {
    setTimeout(() => {
      throw new Error('nobody catches this');
    });
    await new Promise(() => {});
  },
};

try {
  await PARTS[device]();
} catch (error) {
  checks.fail(String(error.stack ?? error));
}
await end();
