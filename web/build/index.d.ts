// The types of the package. The operations come from the registry of onetrip.

/** Elements: f32, i32 and u32 as they are, f16 as its bits in a `Uint16Array`, bool as 0 and 1 in a `Uint8Array`. */
export type TypedArray = Float32Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;
export type DType = 'f32' | 'f16' | 'i32' | 'u32' | 'bool';
/** One size, or one for each axis. */
export type Shape = number | number[];

export interface DeviceInfo {
  name: string;
  /** `BrowserWebGpu` or `CPU`. */
  api: string;
  driver: string;
  /** True if a GPU is one in software. */
  software: boolean;
  isGpu: boolean;
  /** Why the CPU was taken, where `Device.auto` found no GPU. */
  fallback: string | null;
}

export interface ValueInfo {
  name: string | null;
  dtype: DType;
  shape: number[];
}

export interface Operation {
  name: string;
  family: string;
  doc: string;
  dtypes: string;
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
  /** The GPU, also one in software. Throws where there is none. */
  static gpu(): Promise<Device>;
  /** The CPU, on one thread. */
  static cpu(): Promise<Device>;
  info(): DeviceInfo;
  /** An empty batch. */
  batch(): Batch;
  /** Loses the GPU, as a driver might: for tests. */
  simulateLoss(): void;
  free(): void;
  [Symbol.dispose](): void;
}

/** A batch of recorded operations. Recording never throws for a mistake: `compile`, `execute` and `explain` throw all. */
export class Batch {
  private constructor();
  /** An input, whose data comes with each run of a program. */
  input(name: string, shape: Shape, dtype?: DType): Tensor;
  /** A constant of the program: a typed array, and its shape if it is no vector. */
  upload(data: TypedArray, shape?: Shape): Tensor;
  /** Records the operation `name`. */
  call(name: string, operands: Tensor[], parameters?: (number | boolean | number[])[]): Tensor;
  execute(): Promise<void>;
  /** The elements of a tensor after `execute`. */
  read(tensor: Tensor): Promise<TypedArray>;
  compile(): Promise<Program>;
  /** The batch as a file, which any onetrip loads. */
  toBytes(): Promise<Uint8Array>;
  /** The plan: the kernels, their side and the reason. */
  explain(): string;
  /** Throws all mistakes made so far, each with its file and line. */
  check(): void;
  free(): void;
  [Symbol.dispose](): void;
  // OPERATIONS OF BATCHES
}

/** A recorded value. It holds no memory of its own. */
export class Tensor {
  private constructor();
  readonly batch: Batch;
  /** The shape; `undefined` if the tensor comes from a mistake. */
  readonly shape: number[] | undefined;
  readonly dtype: DType;
  /** Makes the tensor an output of the program by this name. */
  named(name: string): this;
  /** The elements after `execute` of the batch. */
  read(): Promise<TypedArray>;
  // OPERATIONS OF TENSORS
}

/** A program: recorded once, run as often as wanted. */
export class Program {
  private constructor();
  /** Loads the program of a file: its URL, or its bytes. */
  static load(device: Device, source: string | URL | ArrayBuffer | Uint8Array): Promise<Program>;
  /** Runs the program: typed arrays by the names of the inputs, and of the outputs. */
  run(inputs?: Record<string, TypedArray>): Promise<Record<string, TypedArray>>;
  inputs(): ValueInfo[];
  outputs(): ValueInfo[];
  explain(): string;
  free(): void;
  [Symbol.dispose](): void;
}

/** The operations that batches record. */
export function operations(): Promise<Operation[]>;
/** The names of all operations, also of those that only files bring. */
export function registry(): Promise<string[]>;
