// Programs that a native onetrip has saved, for each operation of the registry.

import { Program } from '/package/index.js';
import { difference, numbers } from './compare.js';

/** Programs over large inputs, whose kernels are compiled and not run. */
export async function checkCompiled(checks, device) {
  const files = await (await fetch('/cases/large.json')).json();
  for (const file of files) {
    try {
      using program = await Program.load(device, `/cases/${file}`);
      checks.that(/ on gpu/.test(program.explain()), `${file}: ${program.explain()}`);
    } catch (error) {
      checks.fail(`${file}: ${error.message}`);
    }
  }
}

/** The cases of all operations; with `isQuick` a few of each. */
export async function checkFiles(checks, device, isQuick = false) {
  const files = await (await fetch('/cases/cases.json')).json();
  const values = new Float64Array(await (await fetch('/cases/values.bin')).arrayBuffer());
  // SwiftShader compares a subnormal number as 0, and copies it as it is.
  const adapter = device.info().isGpu ? await navigator.gpu.requestAdapter() : undefined;
  const flushes = adapter?.info.architecture === 'swiftshader';
  const slice = ([start, count]) => values.subarray(start, start + count);
  for (const { operation, file, isFirst, outputs } of files) {
    if (isQuick && !isFirst) continue;
    let results;
    try {
      using program = await Program.load(device, `/cases/${file}`);
      results = await program.run();
    } catch (error) {
      checks.fail(`${operation}: ${error.message}`);
      continue;
    }
    for (const { output, case: name, dtype, wanted, flushed, ...tolerance } of outputs) {
      const got = results[output] && numbers(results[output], dtype);
      const what = got
        ? difference(got, slice(wanted), { ...tolerance, flushes }, flushed ? slice(flushed) : undefined)
        : `there is no output ${output}`;
      checks.that(what === undefined, `${name}: ${what}`);
    }
  }
}
