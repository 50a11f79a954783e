// Counts of what a page holds: listeners, buffers of the GPU, memory of WebAssembly and of JavaScript.

import load from '/package/onetrip_web.js';

const held = { listeners: 0, buffers: 0 };

/** Has `owner[name]` call `before(its object, arguments)` first. */
function hook(owner, name, before) {
  const original = owner[name];
  owner[name] = function (...given) {
    before(this, given);
    return original.apply(this, given);
  };
}

hook(EventTarget.prototype, 'addEventListener', () => (held.listeners += 1));
hook(EventTarget.prototype, 'removeEventListener', () => (held.listeners -= 1));
if (globalThis.GPUDevice) {
  const live = new WeakSet();
  // A buffer is gone once it is destroyed, or nobody holds it.
  const collected = new FinalizationRegistry(() => (held.buffers -= 1));
  const create = GPUDevice.prototype.createBuffer;
  GPUDevice.prototype.createBuffer = function (descriptor) {
    const buffer = create.call(this, descriptor);
    held.buffers += 1;
    live.add(buffer);
    collected.register(buffer, undefined, buffer);
    return buffer;
  };
  hook(GPUBuffer.prototype, 'destroy', (buffer) => {
    if (!live.delete(buffer)) return;
    collected.unregister(buffer);
    held.buffers -= 1;
  });
}

/**
 * What the page holds after a collection of garbage. The browser must run with `gc`. The size of the heap is `undefined`
 * in browsers that do not tell it.
 */
export async function counts() {
  const { memory } = await load();
  for (let time = 0; time < 3; time += 1) {
    globalThis.gc();
    // Finalizers run in a task of their own, and what they free is garbage of the next round.
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return { ...held, wasm: memory.buffer.byteLength, heap: performance.memory?.usedJSHeapSize };
}
