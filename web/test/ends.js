// The end of the page's run: a result, or the first error that nothing catches. After a panic promises never settle.

globalThis.result = { passed: 0, failed: [] };
globalThis.end = () => fetch('/result', { method: 'POST', body: JSON.stringify(result) });

function endBy(text) {
  result.failed.push(text);
  return end();
}
// Captured, so that it covers scripts that do not load.
addEventListener('error', ({ error, message, target }) => endBy(String(error ?? message ?? `${target.src} does not load`)), true);
addEventListener('unhandledrejection', ({ reason }) => endBy(String(reason?.stack ?? reason)));
