// Names are any text, in results and in pictures.

import { Program } from '/package/index.js';

/** A name is any text. None is a property of results by itself, and none is markup in a picture. */
export async function checkNames(checks, device) {
  for (const name of ['__proto__', 'constructor', '0', '', 'é ☃ 𝒳', 'a\0b', '<script>"&]]>']) {
    using batch = device.batch();
    batch.input(`${name} in`, [4, 3]).relu().named(name);
    using program = await batch.compile();
    const results = await program.runRows({ [`${name} in`]: new Float32Array([-1, 0, 3]) });
    const isOwn = Object.hasOwn(results, name) && Object.getPrototypeOf(results) === Object.prototype;
    checks.that(isOwn && `${results[name]}` === '0,0,3', `the result ${JSON.stringify(name)}`);
  }
  using batch = device.batch();
  const x = batch.input('x', 3).named('y');
  x.relu().named('b').named('a');
  using program = await batch.compile();
  const names = Object.keys(await program.run({ x: new Float32Array(3) }));
  checks.that(`${names}` === 'x,y,a,b', `a value has each of its names: ${names}`);
}

/** Outputs without a name have the names that the program's file gives them. */
export async function checkOutputs(checks, device) {
  using batch = device.batch();
  const x = batch.input('output1', 3);
  x.relu();
  x.neg();
  using recorded = await batch.compile();
  using loaded = await Program.load(device, await batch.toBytes());
  for (const program of [recorded, loaded]) {
    const results = await program.run({ output1: new Float32Array([-1, 0, 2]) });
    checks.that(`${results.output0}` === '0,0,2', `the first output: ${results.output0}`);
    const names = program.outputs().map(({ name }) => name);
    checks.that(`${names}` === 'output0,output1.1', `the outputs are ${names}`);
    checks.that(`${Object.keys(results)}` === `${names}`, `the results are ${Object.keys(results)}`);
    checks.that(`${results['output1.1']}` === '1,0,-2', `the second output: ${results['output1.1']}`);
  }
}

const EVIL = '<script>top.isHurt = true</script>"\'&]]>--><img src=x onerror="top.isHurt = true">';

export async function checkMarkup(checks, device) {
  using batch = device.batch();
  const w = batch.upload(new Float32Array(6), [3, 2]).named(`${EVIL} w`);
  batch.input(`${EVIL} x`, [4, 3]).matmul(w).relu().named(`${EVIL} y`);
  using program = await batch.compile();
  using plan = program.plan();
  using profile = await program.profile({ [`${EVIL} x`]: new Float32Array(12) });
  for (const html of [plan.toHtml(), profile.toHtml()]) {
    const page = new DOMParser().parseFromString(html, 'text/html');
    const texts = page.body.textContent;
    const own = [...page.querySelectorAll('*')].filter((node) => ['SCRIPT', 'IMG'].includes(node.nodeName));
    checks.that(own.length === 1 && texts.includes(`${EVIL} w`), `the page has ${own.length} scripts and images`);
    const frame = document.createElement('iframe');
    const isLoaded = new Promise((resolve) => (frame.onload = resolve));
    frame.srcdoc = html;
    document.body.append(frame);
    await isLoaded;
    frame.remove();
  }
  const holder = document.body.appendChild(document.createElement('div'));
  holder.innerHTML = plan.toSvg();
  await new Promise((resolve) => setTimeout(resolve, 50));
  checks.that(holder.querySelectorAll('script, img').length === 0, 'the SVG has a script or an image');
  holder.remove();
  checks.that(!globalThis.isHurt, 'a name was run as a script');
}
