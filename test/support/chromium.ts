import { existsSync } from 'node:fs';

const places = [
  ...['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/usr/bin/google-chrome-stable'],
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

/** The program of `CHROMIUM_PATH`, or an installed one. */
export const chromiumPath = (): string | undefined =>
  process.env.CHROMIUM_PATH || places.find((path) => existsSync(path));
