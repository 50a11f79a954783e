// onetrip for JavaScript. The classes of WebAssembly do the work; this module loads them, gives batches and tensors the
// operations of the registry as methods, and names the caller's line in mistakes.

import load, * as wasm from './onetrip_web.js';

let loaded;

/** Loads the WebAssembly module, by default from beside this file. Every `Device` function does it where needed. */
export function init(source) {
  loaded ??= load(source === undefined ? undefined : { module_or_path: source })
    .then(addOperations)
    .catch((error) => {
      loaded = undefined;
      throw error;
    });
  return loaded;
}

/** The key of the object of WebAssembly behind a `Held`, and of the position of a `Tensor`. */
const inner = Symbol('inner');
/** The key of the same object, `undefined` once it was freed. */
const held = Symbol('held');

/** Objects whose memory in WebAssembly is freed by `free`, by `using`, or once nobody holds them. */
class Held {
  constructor(object) {
    // Writable, so that the proxies of frameworks may stand for it.
    Object.defineProperty(this, held, { value: object, writable: true });
  }

  get [inner]() {
    const object = this[held];
    if (!object) throw new TypeError('this object was freed; use it before `free`, and in the block of its `using`');
    return object;
  }

  /** Frees the memory. Runs under way go on, and calling it again does nothing. */
  free() {
    this[held]?.free();
    this[held] = undefined;
  }
}
if (Symbol.dispose) {
  Held.prototype[Symbol.dispose] = Held.prototype.free;
}

/** A device: the GPU of the browser, or the CPU by WebAssembly. */
export class Device extends Held {
  /** The GPU, or the CPU where there is no GPU in hardware: `info().fallback` then says why. */
  static async auto() {
    await init();
    return new Device(await wasm.Device.auto());
  }

  /** The GPU, also one in software. Throws where there is none. */
  static async gpu() {
    await init();
    return new Device(await wasm.Device.gpu());
  }

  /** The CPU, on one thread. */
  static async cpu() {
    await init();
    return new Device(wasm.Device.cpu());
  }

  info() {
    return this[inner].info();
  }

  /** The speed of both sides as it is known now: typical figures until it was measured. */
  profile() {
    return this[inner].profile();
  }

  /** Measures the speed of both sides, in one to two seconds. Later plans use the new figures. */
  async calibrate() {
    return this[inner].calibrate();
  }

  /** An empty batch. */
  batch() {
    return new Batch(this[inner].batch(...caller(this.batch)));
  }

  /** Loses the GPU, as a driver might: for tests. */
  simulateLoss() {
    this[inner].simulateLoss();
  }
}

/** A batch of recorded operations. `compile`, `execute`, `explain` and `check` throw all mistakes of recording. */
export class Batch extends Held {
  /** An input, whose data comes with each run of a program. */
  input(name, shape, dtype = 'f32') {
    return new Tensor(this, this[inner].input(name, shape, dtype, ...caller(this.input)));
  }

  /** A constant of the program: a typed array, and its shape if it is no vector. */
  upload(data, shape) {
    return new Tensor(this, this[inner].upload(data, shape, ...caller(this.upload)));
  }

  /** Records the operation `name` of the registry. */
  call(name, operands, parameters = []) {
    return record(this, name, operands, parameters, this.call);
  }

  /** The elements of `x` as elements of another type. */
  cast(x, dtype) {
    return cast(this, x, dtype, this.cast);
  }

  async execute() {
    await this[inner].execute();
  }

  /** The elements of a tensor after `execute`. */
  async read(tensor) {
    if (!isOf(this, tensor)) throw new TypeError(`\`read\` takes a tensor of the same batch, not ${kind(tensor)}`);
    return this[inner].read(tensor[inner]);
  }

  async compile() {
    return new Program(await this[inner].compile());
  }

  /** The batch as a file, which any onetrip loads. */
  async toBytes() {
    return this[inner].toBytes();
  }

  /** The plan: its kernels, their sides and the predictions. */
  plan() {
    return new Plan(this[inner].plan());
  }

  explain() {
    return this[inner].explain();
  }

  /** Throws all mistakes made so far. */
  check() {
    this[inner].check();
  }
}

/** A recorded value. It holds no memory of its own. */
export class Tensor {
  constructor(batch, at) {
    this.batch = batch;
    Object.defineProperty(this, inner, { value: at });
  }

  /** The shape; `undefined` if the tensor comes from a mistake. */
  get shape() {
    return this.batch[inner].shape(this[inner]);
  }

  get dtype() {
    return this.batch[inner].dtype(this[inner]);
  }

  /** Makes the tensor an output of the program by this name. */
  named(name) {
    this.batch[inner].name(this[inner], name, ...caller(this.named));
    return this;
  }

  /** The elements as elements of another type. */
  cast(dtype) {
    return cast(this.batch, this, dtype, this.cast);
  }

  /** The elements after `execute` of the batch. */
  read() {
    return this.batch.read(this);
  }
}

/** A program: recorded once, run as often as wanted. */
export class Program extends Held {
  /** Loads the program of a file: its URL, or its bytes. Only with `wgsl` may the file bring kernels of its own. */
  static async load(device, source, { wgsl = false } = {}) {
    if (!(device instanceof Device)) {
      const hint = device instanceof Promise ? '; `await` the promise first' : '';
      throw new TypeError(`a program is loaded on a device: \`Program.load(device, source)\`${hint}`);
    }
    const isUrl = typeof source === 'string' || source instanceof URL;
    let bytes = isUrl ? await fetched(source) : source;
    if (bytes instanceof ArrayBuffer) {
      bytes = new Uint8Array(bytes);
    }
    if (!(bytes instanceof Uint8Array)) {
      throw new TypeError('a program is loaded from a URL, an ArrayBuffer or a Uint8Array');
    }
    try {
      return new Program(await wasm.Program.fromBytes(device[inner], bytes, wgsl));
    } catch (error) {
      if (isUrl && error instanceof Error) error.message = `${source}: ${error.message}`;
      throw error;
    }
  }

  /** Runs the program: typed arrays by the names of the inputs, and of the outputs. */
  async run(inputs = {}) {
    // A copy: a getter that throws must not leave through WebAssembly, nor `null` enter it.
    return this[inner].run({ ...inputs });
  }

  /** As `run`, with any number of rows: along the leading axis of all inputs, or of those that `rowsOf` names. */
  async runRows(inputs = {}, { rowsOf } = {}) {
    return this[inner].runRows({ ...inputs }, names(rowsOf));
  }

  /** Runs the program `runs` times, and returns the mean time of each kernel beside its prediction. */
  async profile(inputs = {}, { runs = 1 } = {}) {
    if (!Number.isInteger(runs) || runs < 1 || runs >= 2 ** 32) {
      throw new RangeError(`the number of \`runs\` is a whole number from 1 to 2³² − 1, not ${String(runs)}`);
    }
    return new Profile(await this[inner].profile({ ...inputs }, runs));
  }

  /** The number of rows that the program was recorded with, and how each output depends on rows. */
  rows({ rowsOf } = {}) {
    return this[inner].rows(names(rowsOf));
  }

  inputs() {
    return this[inner].inputs();
  }

  outputs() {
    return this[inner].outputs();
  }

  /** The plan: its kernels, their sides and the predictions. */
  plan() {
    return new Plan(this[inner].plan());
  }

  explain() {
    return this[inner].explain();
  }
}

/** Figures as properties, and a picture of them. */
class Pictured extends Held {
  constructor(object) {
    super(object);
    Object.assign(this, object.figures());
  }

  /** The plan as one page of HTML, which needs no other file. */
  toHtml() {
    return this[inner].toHtml();
  }
}

/** A plan: its kernels, their sides and the predictions. */
export class Plan extends Pictured {
  /** The recorded graph as SVG. */
  toSvg() {
    return this[inner].toSvg();
  }
}

/** The times and counts of one run. */
export class Profile extends Pictured {}

/** The operations that batches record, with their documentation. */
export async function operations() {
  await init();
  return wasm.operations();
}

/** The names of all operations, also of those that only files bring. */
export async function registry() {
  await init();
  return wasm.registry();
}

/** The bytes of the file at `url`. */
async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) {
    throw new Error(`${url}: the server answers ${response.status} ${response.statusText}`);
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  // A file of safetensors begins with a length below 2^32 in eight bytes.
  const isPage = /^\s*<(!doctype|html|\?xml)/i.test(String.fromCharCode(...bytes.subarray(0, 64)));
  if (isPage) throw new Error(`${url}: the server sent a page of HTML in place of the file`);
  return bytes;
}

/** A copy of the names of inputs in `rowsOf`. */
function names(rowsOf) {
  if (rowsOf === undefined) return undefined;
  if (!Array.isArray(rowsOf) || !rowsOf.every((name) => typeof name === 'string')) {
    throw new TypeError('`rowsOf` is an array of names of inputs');
  }
  return [...rowsOf];
}

/** The kind of a value in messages. */
function kind(value) {
  if (value instanceof Tensor) return 'one of another batch';
  return typeof value === 'number' ? `the number ${value}` : value === null ? 'null' : `a value of type ${typeof value}`;
}

const isOf = (batch, tensor) => tensor instanceof Tensor && tensor.batch === batch;

/** The positions of the operands of the operation `name`, which `method` was called for. */
function positions(batch, name, operands, method) {
  return Uint32Array.from(operands, (operand) => {
    if (isOf(batch, operand)) return operand[inner];
    const [file, line] = caller(method);
    const hint = typeof operand === 'number' ? '; for a number use `scale` or `add_scalar`' : '';
    throw new TypeError(
      `${file}:${line}: ${String(name)}: an operand is a tensor of the same batch, not ${kind(operand)}${hint}`,
    );
  });
}

function record(batch, name, operands, parameters, method) {
  const at = positions(batch, name, operands, method);
  // A copy, since WebAssembly takes an array alone.
  return new Tensor(batch, batch[inner].call(name, at, [...parameters], ...caller(method)));
}

function cast(batch, x, dtype, method) {
  const [at] = positions(batch, 'cast', [x], method);
  return new Tensor(batch, batch[inner].cast(at, dtype, ...caller(method)));
}

/** Gives batches and tensors a method for each operation. A tensor is the first operand of its own. */
function addOperations() {
  for (const { name, operands, doc } of wasm.operations()) {
    const methods = {
      batch(...given) {
        return record(this, name, given.slice(0, operands), given.slice(operands), methods.batch);
      },
      tensor(...given) {
        const others = given.slice(0, operands - 1);
        return record(this.batch, name, [this, ...others], given.slice(operands - 1), methods.tensor);
      },
    };
    Object.defineProperty(methods.batch, 'doc', { value: doc });
    Object.defineProperty(Batch.prototype, name, { value: methods.batch, configurable: true });
    Object.defineProperty(Tensor.prototype, name, { value: methods.tensor, configurable: true });
  }
}

const here = import.meta.url.split('?')[0];
/** Places by their lines in stacks. */
const places = new Map();

/** The file and line of the caller of `method`, a function of this module that is under way. */
function caller(method) {
  for (const line of stack(method).split('\n')) {
    // Such a stack has no frame of this module; in a bundle the caller is in the same file.
    if (!Error.captureStackTrace && line.includes(here)) continue;
    const known = places.get(line) ?? place(line);
    if (!known) continue;
    places.set(line, known);
    return known;
  }
  return ['script', 0];
}

/** The stack from the caller of `method` on. It takes most of the time of recording, so that V8 is asked for one frame. */
function stack(method) {
  if (!Error.captureStackTrace) return new Error().stack ?? '';
  const limit = Error.stackTraceLimit;
  const holder = {};
  // A page may have frozen `Error`.
  Reflect.set(Error, 'stackTraceLimit', 1);
  Error.captureStackTrace(holder, method);
  Reflect.set(Error, 'stackTraceLimit', limit);
  // A page may have its own `Error.prepareStackTrace`, which returns any value.
  return String(holder.stack);
}

/** The file and line in a line of a stack. */
function place(line) {
  const found = line.match(/((?:https?|file|blob):[^\s)]*?)(\?[^\s)]*?)?:(\d+):\d+\)?$/);
  return found && [found[1].slice(found[1].lastIndexOf('/') + 1), Number(found[3])];
}
