// node run_page.mjs SITE PAGE [flags of Chromium]: serves the folder SITE, opens PAGE in headless Chromium, prints what
// the page posts to /log, and ends when it posts its result to /result: {"passed": number, "failed": [texts]}.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

const [site, page, ...flags] = process.argv.slice(2);
const root = path.resolve(site);
const limit = Number(process.env.LIMIT_SECONDS ?? 600) * 1000;
const browser = process.env.CHROMIUM ?? 'chromium';

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'onetrip-chromium-'));
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

function receive(request, then) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => then(Buffer.concat(parts).toString()));
}

const server = http.createServer((request, response) => {
  if (request.method === 'POST') {
    receive(request, (body) => {
      response.end();
      if (request.url === '/result') return report(JSON.parse(body));
      process.stdout.write(`${body}\n`);
    });
    return;
  }
  const { pathname } = new URL(request.url, 'http://localhost');
  const file = path.join(root, path.normalize(decodeURIComponent(pathname)));
  fs.readFile(file, (error, data) => {
    if (error || !file.startsWith(root)) return response.writeHead(404).end();
    const type = TYPES[path.extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type }).end(data);
  });
});

server.listen(0, '127.0.0.1', () => {
  const url = `http://localhost:${server.address().port}${page}`;
  const quiet = [
    '--headless=new', '--no-sandbox', '--no-first-run', '--disable-quic', '--disable-sync',
    '--disable-background-networking', '--disable-component-update', '--disable-dev-shm-usage',
    '--enable-logging=stderr', `--user-data-dir=${profile}`,
  ];
  child = spawn(browser, [...quiet, ...flags, url], { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
  // Errors of the page's console; the browser says much more.
  child.stderr.on('data', (text) => {
    const lines = text.toString().split('\n').filter((line) => line.includes(':CONSOLE'));
    lines.forEach((line) => process.stdout.write(`${line}\n`));
  });
  child.on('error', (error) => end(3, `${browser} cannot be started: ${error.message}`));
  child.on('exit', (code) => end(3, `${browser} ended with ${code}`));
  setTimeout(() => end(2, `no result after ${limit / 1000} s`), limit);
});
