// A server of static files, and of what a page posts.

import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

/**
 * Serves the folder `site` on a free port. `posted(path, text)` gets what a page posts. Browsers may keep files for so
 * many `seconds`.
 */
export function serve(site, posted = () => {}, seconds = 0) {
  const root = path.resolve(site);
  const server = http.createServer((request, response) => {
    if (request.method === 'POST') {
      const parts = [];
      request.on('data', (part) => parts.push(part));
      request.on('end', () => {
        response.end();
        posted(request.url, Buffer.concat(parts).toString());
      });
      return;
    }
    let { pathname } = new URL(request.url, 'http://localhost');
    if (pathname.endsWith('/')) pathname += 'index.html';
    const file = path.join(root, path.normalize(decodeURIComponent(pathname)));
    fs.readFile(file, (error, data) => {
      if (error || !file.startsWith(root)) return response.writeHead(404).end();
      const type = TYPES[path.extname(file)] ?? 'application/octet-stream';
      response.writeHead(200, { 'content-type': type, 'cache-control': `max-age=${seconds}` }).end(data);
    });
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve({ server, address: `http://localhost:${server.address().port}` });
    });
  });
}
