// Programs that several files test with.

/** The program y = x over rows of three. */
export async function identity(device) {
  using batch = device.batch();
  batch.input('x', [4, 3]).scale(1).named('y');
  return batch.compile();
}
