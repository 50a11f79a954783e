// node types.mjs FOLDER: writes FOLDER/index.d.ts, the types of the package in FOLDER: those of index.d.ts beside this
// file, and a method for each operation of the registry.

import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const folder = path.resolve(process.argv[2]);
const { default: load, operations } = await import(pathToFileURL(path.join(folder, 'onetrip_web.js')));
await load({ module_or_path: fs.readFileSync(path.join(folder, 'onetrip_web_bg.wasm')) });

const TYPES = {
  number: 'number',
  axis: 'number',
  axes: 'number | number[]',
  flag: 'boolean',
  list: 'number[]',
};
const OPTIONAL = ['axes', 'flag'];
const OPERANDS = { select: ['condition', 'x', 'y'], linear: ['x', 'w', 'b'], matmul: ['x', 'w'] };

function method({ name, doc, dtypes, operands, parameters }, first) {
  const names = OPERANDS[name] ?? ['x', 'y', 'z'];
  const tensors = names.slice(first, operands).map((operand) => `${operand}: Tensor`);
  const others = parameters.map((parameter) => {
    const optional = OPTIONAL.includes(parameter.kind) && parameters.every(({ kind }) => OPTIONAL.includes(kind));
    return `${parameter.name}${optional ? '?' : ''}: ${TYPES[parameter.kind]}`;
  });
  const text = doc.replaceAll(/\s*\n\s*/g, ' ');
  return `  /** ${text} Elements: ${dtypes}. */\n  ${name}(${[...tensors, ...others].join(', ')}): Tensor;\n`;
}

const all = operations();
const methods = (first) => all.map((operation) => method(operation, first)).join('');
const template = fs.readFileSync(new URL('index.d.ts', import.meta.url), 'utf8');
const text = template
  .replace('  // OPERATIONS OF BATCHES\n', methods(0))
  .replace('  // OPERATIONS OF TENSORS\n', methods(1));
fs.writeFileSync(path.join(folder, 'index.d.ts'), text);
