// How headless browsers are started. CHROMIUM and FIREFOX name others than those in PATH.

import fs from 'node:fs';
import path from 'node:path';

/** Flags of Chromium: with a garbage collector for the page, and precise sizes of memory. */
export const CHROMIUM = [
  '--headless=new', '--no-sandbox', '--no-first-run', '--disable-quic', '--disable-sync',
  '--disable-background-networking', '--disable-component-update', '--disable-dev-shm-usage',
  '--enable-logging=stderr', '--js-flags=--expose-gc', '--enable-precise-memory-info',
];

/** Firefox asks nothing, sends nothing, and has WebGPU in software where `page` gives it. */
const FIREFOX = {
  'app.normandy.enabled': false,
  'browser.aboutwelcome.enabled': false,
  'browser.shell.checkDefaultBrowser': false,
  'datareporting.policy.dataSubmissionEnabled': false,
  'dom.max_script_run_time': 0,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
  'toolkit.telemetry.enabled': false,
  'gfx.webgpu.ignore-blocklist': true,
};

const KINDS = {
  /** `options` are flags. */
  chromium(profile, options) {
    return { command: process.env.CHROMIUM ?? 'chromium', flags: [...CHROMIUM, `--user-data-dir=${profile}`, ...options] };
  },

  /** `options` are preferences, as `dom.webgpu.enabled=true`. */
  firefox(profile, options) {
    const given = options.map((option) => option.split('=')).map(([name, value]) => [name, JSON.parse(value)]);
    const lines = [...Object.entries(FIREFOX), ...given].map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${value});\n`);
    fs.writeFileSync(path.join(profile, 'user.js'), lines.join(''));
    return { command: process.env.FIREFOX ?? 'firefox', flags: ['--headless', '--no-remote', '--profile', profile] };
  },
};

/** The command and the flags of a browser, `chromium` or `firefox`, with a `profile` in an empty folder. */
export function browser(kind, profile, options) {
  return KINDS[kind](profile, options);
}
