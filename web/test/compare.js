// Comparison with reference values, by the rules of `tests/reference`.

/** Numbers of any typed array; a `Uint16Array` holds the bits of f16. */
export function numbers(array, dtype) {
  return dtype === 'f16' ? Float64Array.from(array, half) : Float64Array.from(array);
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** The least normal f32. */
const TINY = 2 ** -126;

function accepts(got, wanted, { rtol, atol, signedZero, flushes }) {
  if (Number.isNaN(wanted) || Number.isNaN(got)) return Number.isNaN(wanted) && Number.isNaN(got);
  if (got === wanted) return !signedZero || Object.is(got, wanted) || got !== 0;
  // This GPU takes subnormal numbers for zero in one instruction and not in the next.
  if (flushes && got !== 0 && Math.abs(got) < TINY && Math.abs(wanted) < TINY) return true;
  const isNear = Math.abs(got - wanted) <= atol + rtol * Math.abs(wanted);
  return Number.isFinite(wanted) && Number.isFinite(got) && isNear;
}

/**
 * The first difference as text; `undefined` if there is none. `flushed` has other right values. The tolerance is
 * {rtol, atol, signedZero, flushes}; with `flushes` any subnormal number stands for any other.
 */
export function difference(got, wanted, tolerance, flushed = wanted) {
  if (got.length !== wanted.length) return `${got.length} elements, not ${wanted.length}`;
  for (let at = 0; at < got.length; at += 1) {
    if (!accepts(got[at], wanted[at], tolerance) && !accepts(got[at], flushed[at], tolerance)) {
      return `element ${at} is ${got[at]}, not ${wanted[at]}`;
    }
  }
  return undefined;
}

/** The tensors and the metadata of a safetensors file. */
export async function safetensors(url) {
  const bytes = await (await fetch(url)).arrayBuffer();
  const length = Number(new DataView(bytes).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  const { __metadata__: metadata, ...tensors } = header;
  const KINDS = { F32: Float32Array, F16: Uint16Array, I32: Int32Array, U32: Uint32Array, BOOL: Uint8Array };
  const tensor = (name) => {
    const { dtype, shape, data_offsets: [start, end] } = tensors[name];
    const data = new KINDS[dtype](bytes.slice(8 + length + start, 8 + length + end));
    return { dtype: dtype.toLowerCase(), shape, data };
  };
  return { metadata, tensor };
}
