/// <reference lib="esnext.disposable" />
// The types of the package. The operations come from the registry of onetrip.
//
// A wrong argument, or an object after `free`, is a `TypeError`. Data that the memory of WebAssembly has no room for are a
// `RangeError`. All other errors of onetrip are an `OnetripError`. A method that returns a promise rejects it and
// never throws.

/** An error of onetrip, whose `name` tells its kind. The message names the place in the script, the fault and the cure. */
export interface OnetripError extends Error {
  /**
   * - `RecordError`: mistakes of recording, each with its file and line.
   * - `PlanError`: a graph that is sound and cannot be planned, as an empty batch.
   * - `DeviceError`: a device that could not be opened, was lost, or has too little memory.
   * - `FaultError`: data that an operation cannot work with, as an index out of range or a division of integers by 0.
   * - `RunError`: a run that was not made, or not to its end.
   * - `ReadError`: a result that is not there.
   * - `RowsError`: rows that cannot be cut and joined, as those that an operation mixes.
   * - `DataError`: data or a file that do not fit.
   * - `PanicError`: a panic, which is a bug of onetrip. No call throws it: listeners of the event `error` get it.
   */
  name:
    | 'RecordError'
    | 'PlanError'
    | 'DeviceError'
    | 'FaultError'
    | 'RunError'
    | 'ReadError'
    | 'RowsError'
    | 'DataError'
    | 'PanicError';
}

/**
 * Elements in row-major order: f32, i32 and u32 as they are, f16 as its bits in a `Uint16Array`, bool as 0 and 1 in a
 * `Uint8Array`, in which every other number than 0 is read as 1. They are copied when a call begins.
 */
export type TypedArray = Float32Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;
export type DType = 'f32' | 'f16' | 'i32' | 'u32' | 'bool';
/** One size, or one for each axis, at most eight: whole numbers from 0 on. */
export type Shape = number | number[];

export interface DeviceInfo {
  name: string;
  /** `BrowserWebGpu`, or `host` for the CPU. */
  api: string;
  driver: string;
  /** True if a GPU is one in software. */
  software: boolean;
  isGpu: boolean;
  /** Why the CPU was taken, where `Device.auto` found no GPU. */
  fallback: string | null;
}

/** An input or an output of a program. */
export interface ValueInfo {
  /** Of several names the first in order. An output without a name has `output` and its position, such as `output0`. */
  name: string;
  dtype: DType;
  shape: number[];
}

export type Backend = 'cpu' | 'gpu';

export interface PlanFigures {
  /** The GPU if any of it runs there. */
  backend: Backend;
  /** In the order in which they run; a name joins the operations fused in a kernel by `+`. */
  kernels: { kernel: string; backend: Backend }[];
  dispatches: number;
  /** Bytes of memory that a run holds at most. */
  peakBytes: number;
  /** Predicted seconds of a run. */
  predicted: number;
  /**
   * Predicted seconds of a run on each side; `null` for a side that cannot run it, or that the device was not opened
   * with.
   */
  predictions: { cpu: number | null; gpu: number | null };
  /** The page of `explain`. */
  text: string;
}

/** One kernel: its times in seconds, its shapes and its work. */
export interface KernelProfile {
  kernel: string;
  form: string;
  /** The place of its last operation: `file:line`. */
  place: string;
  /** The shapes of its inputs and outputs. */
  inputs: number[][];
  outputs: number[][];
  backend: Backend;
  dispatches: number;
  /** `null` for a GPU without timestamps. The clocks of browsers have coarse steps: profile many runs. */
  time: number | null;
  predicted: number;
  /** Floating-point operations. */
  flops: number;
  /** Bytes that it reads and writes. */
  bytes: number;
}

export interface ProfileFigures {
  device: string;
  backend: Backend;
  kernels: KernelProfile[];
  stats: {
    uploads: number;
    submits: number;
    dispatches: number;
    downloads: number;
    bytesUp: number;
    bytesDown: number;
    peakBytes: number;
    /** Seconds from the first copy to the last result: of several runs the mean. */
    runTime: number;
  };
}

/** How the outputs of a program depend on the rows of its inputs. */
export interface Rows {
  /** The number of rows that the program was recorded with. */
  recorded: number;
  outputs: {
    /** As in `outputs()`. */
    name: string;
    /** One result for each row, a reduction of all rows, or the same for all rows. */
    kind: 'perRow' | 'sum' | 'mean' | 'max' | 'min' | 'constant';
    /** The axis that has the rows; `null` for other kinds than `perRow`. */
    axis: number | null;
  }[];
}

/** The speed of one side. Rates are those at the largest size that is known. */
export interface SideProfile {
  /** Seconds of a trip, and of each dispatch. */
  roundTrip: number;
  dispatch: number;
  /** Bytes a second to the side, from it, and of its memory. */
  upload: number;
  download: number;
  memory: number;
  /** Flops a second of elementwise operations, and of matrix products. */
  arithmetic: number;
  product: number;
}

export interface DeviceProfile {
  /** False for typical figures. */
  measured: boolean;
  cpu: SideProfile;
  gpu: SideProfile;
}

/** An operation that batches record. */
export interface Operation {
  name: string;
  family: string;
  doc: string;
  /** The element types that it takes, as text. */
  dtypes: string;
  /** The number of tensors that it takes, before its parameters. */
  operands: number;
  parameters: { name: string; kind: 'number' | 'axis' | 'axes' | 'flag' | 'list' }[];
}

/** Loads the WebAssembly module, by default from beside this one. Called by itself where needed. */
export function init(source?: string | URL | Request | BufferSource | WebAssembly.Module): Promise<void>;

/** A device: the GPU of the browser, or the CPU by WebAssembly. */
export class Device {
  private constructor();
  /** The GPU, or the CPU where there is no GPU in hardware: `info().fallback` then says why. */
  static auto(): Promise<Device>;
  /** The GPU, also one in software. Rejects with a `DeviceError` where there is none. */
  static gpu(): Promise<Device>;
  /** The CPU, on one thread. */
  static cpu(): Promise<Device>;
  info(): DeviceInfo;
  /** The speed of both sides as it is known now: typical figures until it was measured. */
  profile(): DeviceProfile;
  /**
   * Measures the speed of both sides, in one to two seconds. Later plans use the new figures. A page that is isolated from
   * other origins has a finer clock.
   */
  calibrate(): Promise<DeviceProfile>;
  /** An empty batch. */
  batch(): Batch;
  /** Loses the GPU, as a driver might: for tests. */
  simulateLoss(): void;
  /** Frees the memory. Its batches and programs go on. The second call does nothing. */
  free(): void;
  [Symbol.dispose](): void;
}

/**
 * A batch of recorded operations. Recording throws a `TypeError` for an argument that is no tensor, array, shape, name or
 * type. All other mistakes are collected, and thrown by `compile`, `execute`, `explain` and `check`.
 */
export class Batch {
  private constructor();
  /** An input of a program: each run gives data of this shape and type by this name. */
  input(name: string, shape: Shape, dtype?: DType): Tensor;
  /** A constant of the program, of this shape, or a vector. It has the element type of the typed array. */
  upload(data: TypedArray, shape?: Shape): Tensor;
  /** Records the operation `name` of those that `operations()` lists. Throws a `TypeError` if it lists none. */
  call(name: string, operands: Tensor[], parameters?: (number | boolean | number[])[]): Tensor;
  /**
   * The elements of `x` as elements of another type. Floats become integers by truncation, within their range, and NaN
   * becomes 0. Every number but 0 becomes true.
   */
  cast(x: Tensor, dtype: DType): Tensor;
  /** Runs all that was recorded, which takes no inputs: data come by `upload`. Rejects with a `RecordError` for mistakes, with a `DeviceError` for a lost GPU. */
  execute(): Promise<void>;
  /** The elements of a tensor of the last `execute`. Rejects with a `ReadError` if it has none. */
  read(tensor: Tensor): Promise<TypedArray>;
  /** Plans and compiles the batch. Rejects with a `RecordError` for mistakes. */
  compile(): Promise<Program>;
  /** The batch as a safetensors file, which any onetrip loads. */
  toBytes(): Promise<Uint8Array>;
  /** The plan: its kernels, their sides and the predictions. */
  plan(): Plan;
  /** The plan as text, with reasons. Blocks of kernels that repeat are printed once; `plan()` has all of them. */
  explain(): string;
  /** Throws all mistakes made so far, each with its file and line. */
  check(): void;
  free(): void;
  [Symbol.dispose](): void;
  // OPERATIONS OF BATCHES
}

export interface Plan extends PlanFigures {}
/** A plan: its kernels, their sides and the predictions. */
export class Plan {
  private constructor();
  /** The plan as one page of HTML, which needs no other file: the graph beside its kernels, times, memory, transfers. */
  toHtml(): string;
  /** The recorded graph as SVG. */
  toSvg(): string;
  free(): void;
  [Symbol.dispose](): void;
}

export interface Profile extends ProfileFigures {}
/** The times and counts of one run. */
export class Profile {
  private constructor();
  /** As that of a plan, with the measured time of each kernel and the stages of the run. */
  toHtml(): string;
  free(): void;
  [Symbol.dispose](): void;
}

/** A recorded value. It holds no memory of its own. */
export class Tensor {
  private constructor();
  readonly batch: Batch;
  /** The shape; `undefined` if the tensor comes from a mistake. */
  readonly shape: number[] | undefined;
  readonly dtype: DType;
  /**
   * Makes the tensor an output of the program by this name, or by one more. Once a value has a name, only values with
   * names are results. No two tensors of a batch have the same name.
   */
  named(name: string): this;
  /** As the `cast` of batches. */
  cast(dtype: DType): Tensor;
  /** The elements after `execute` of the batch. */
  read(): Promise<TypedArray>;
  // OPERATIONS OF TENSORS
}

/** A program: recorded once, run as often as wanted. */
export class Program {
  private constructor();
  /**
   * Loads the program of a file: its URL, or its bytes. Only with `wgsl` may the file bring kernels of its own. Rejects with
   * a `DataError` for a file that holds no program, with an `Error` for an answer of the server that is no file.
   */
  static load(
    device: Device,
    source: string | URL | ArrayBuffer | Uint8Array,
    options?: { wgsl?: boolean },
  ): Promise<Program>;
  /**
   * Runs the program: typed arrays by the names of the inputs, and of the outputs. Rejects with a `TypeError` for arrays
   * of another type than `inputs()` tells, with a `DataError` for another length, another name or a missing input. The
   * first run of a program is slower than later ones, since browsers compile WebAssembly and shaders while they run.
   */
  run(inputs?: Record<string, TypedArray>): Promise<Record<string, TypedArray>>;
  /**
   * As `run`, with any number of rows, also none: the leading axis of all inputs that have axes, or of those that `rowsOf`
   * names. It must be recorded with two rows or more. Beside such an input, a state `[1, rows, width]` has its rows along
   * the second axis. Other inputs are given whole. Rejects with a `RowsError` where an
   * operation mixes rows, with its file and line, and for data that are no whole number of rows.
   */
  runRows(inputs?: Record<string, TypedArray>, options?: { rowsOf?: string[] }): Promise<Record<string, TypedArray>>;
  /**
   * The number of rows that the program was recorded with, and how each output depends on rows. Throws a `RowsError` where
   * an operation mixes rows.
   */
  rows(options?: { rowsOf?: string[] }): Rows;
  /** The inputs, as they were recorded. */
  inputs(): ValueInfo[];
  /** The outputs, as they were recorded. */
  outputs(): ValueInfo[];
  /**
   * Runs the program `runs` times, from 1 on, by default once. Returns the mean time of each kernel beside its prediction,
   * and that of a run; the counts and stages are those of the first run.
   */
  profile(inputs?: Record<string, TypedArray>, options?: { runs?: number }): Promise<Profile>;
  /** The plan of the next run. */
  plan(): Plan;
  /** The plan as text, with reasons. Blocks of kernels that repeat are printed once; `plan()` has all of them. */
  explain(): string;
  free(): void;
  [Symbol.dispose](): void;
}

/** The operations that batches record. */
export function operations(): Promise<Operation[]>;
/** The names of all operations, also of those that only files bring. */
export function registry(): Promise<string[]>;
