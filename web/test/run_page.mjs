// node run_page.mjs BROWSER SITE PAGE [options]: serves the folder SITE, opens PAGE in a headless browser, `chromium` with
// flags or `firefox` with preferences, prints what the page posts to /log, and ends when it posts its result to /result:
// {"passed": number, "failed": [texts]}.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { browser } from './browsers.mjs';
import { serve } from './serve.mjs';

const [kind, site, page, ...options] = process.argv.slice(2);
const limit = Number(process.env.LIMIT_SECONDS ?? 600) * 1000;

const profile = fs.mkdtempSync(path.join(os.tmpdir(), `onetrip-${kind}-`));
let child;
let ended = false;

function end(code, text) {
  if (ended) return;
  ended = true;
  process.stdout.write(`${text}\n`);
  server.close();
  server.closeAllConnections();
  const leave = () => {
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    process.exit(code);
  };
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return leave();
  child.once('exit', leave);
  // The browser's own children are in its group.
  process.kill(-child.pid, 'SIGKILL');
}

function report({ passed, failed }) {
  failed.forEach((text) => process.stdout.write(`FAILED ${text}\n`));
  const isGood = failed.length === 0 && passed > 0;
  end(isGood ? 0 : 1, `${passed} passed, ${failed.length} failed`);
}

const { server, address } = await serve(site, (where, text) => {
  if (where === '/result') return report(JSON.parse(text));
  process.stdout.write(`${text}\n`);
});
const { command, flags } = browser(kind, profile, options);
child = spawn(command, [...flags, `${address}${page}`], { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
// Errors of the page's console; the browser says much more.
child.stderr.on('data', (text) => {
  const lines = text.toString().split('\n').filter((line) => line.includes(':CONSOLE'));
  lines.forEach((line) => process.stdout.write(`${line}\n`));
});
child.on('error', (error) => end(3, `${command} cannot be started: ${error.message}`));
child.on('exit', (code) => end(3, `${command} ended with ${code}`));
setTimeout(() => end(2, `no result after ${limit / 1000} s`), limit);
