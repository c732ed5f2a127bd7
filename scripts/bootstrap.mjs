// The entry point of all npm scripts. Installs what a command needs; itself it needs only Node 20 and no packages.
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BootstrapFailure, runInForeground } from './bootstrap/child.mjs';
import { installOcrLanguages, missingOcrLanguages } from './bootstrap/ocr-languages.mjs';
import { installOnce } from './bootstrap/once.mjs';
import { findNode, installPackages } from './bootstrap/packages.mjs';
import { installTools, toolsFolder } from './bootstrap/tools.mjs';

const OLDEST_NODE = 20;
const PRODUCT = '{src,workflows,activities,workers,services}/**';

/**
 * `run` is the script that Node 24 executes; `defaults` are its arguments if the user gives none. `isProduct` commands run
 * without the packages for tests and checks.
 * @typedef {{ run: string[], defaults?: string[], needsTools?: boolean, isProduct?: boolean }} Command
 * @type {Record<string, Command>}
 */
const COMMANDS = {
  start: { run: ['scripts/start.ts'], needsTools: true, isProduct: true },
  demo: { run: ['scripts/demo.ts'], needsTools: true, isProduct: true },
  'demo:connectors': { run: ['scripts/demo-connectors.ts'], needsTools: true },
  admin: { run: ['scripts/admin.ts'], isProduct: true },
  services: { run: ['scripts/services.ts'], needsTools: true },
  models: { run: ['scripts/models.ts'], needsTools: true, isProduct: true },
  test: { run: ['scripts/test.ts'], needsTools: true },
  'test:unit': { run: ['scripts/test.ts', '--level', 'unit'] },
  'test:system': { run: ['scripts/test.ts', '--level', 'system'], needsTools: true },
  'test:models': {
    run: ['node_modules/mocha/bin/mocha.js', '--timeout', '600000'],
    defaults: ['services/**/*.models-test.ts'],
    needsTools: true,
  },
  'test:faults': { run: ['scripts/test-faults.ts'], needsTools: true },
  'test:all': { run: ['scripts/test-all.ts'], needsTools: true },
  'test:stress': { run: ['scripts/test-stress.ts'], needsTools: true },
  'test:schema': { run: ['scripts/test-schema.ts'], needsTools: true },
  'test:mutation': { run: ['scripts/test-mutation.ts'], needsTools: true },
  'test:canaries': { run: ['scripts/test-canaries.ts'], needsTools: true },
  coverage: { run: ['node_modules/c8/bin/c8.js', '--include', PRODUCT, 'node', 'scripts/test.ts'], needsTools: true },
  bench: { run: ['bench/all.ts'], needsTools: true },
  'bench:embed': { run: ['bench/embed.ts'], needsTools: true },
  'bench:ingest': { run: ['bench/ingest.ts'], needsTools: true },
  'bench:docx': { run: ['bench/docx.ts'] },
  'bench:chunking': { run: ['bench/chunking.ts'] },
  'bench:spotlight': { run: ['bench/spotlight.ts'] },
  'bench:retrieval': { run: ['bench/retrieval.ts'], needsTools: true },
  'bench:http': { run: ['bench/http.ts'], needsTools: true },
  'bench:chat': { run: ['bench/chat.ts'], needsTools: true },
  'bench:search': { run: ['bench/search.ts'], needsTools: true },
  'bench:transfer': { run: ['bench/transfer.ts'], needsTools: true },
  'bench:judge': { run: ['bench/judge.ts'], needsTools: true },
  'bench:lists': { run: ['bench/lists.ts'], needsTools: true },
  'bench:import': { run: ['bench/import.ts'], needsTools: true },
  'bench:start': { run: ['bench/start.ts'], needsTools: true },
  'bench:memory': { run: ['bench/memory.ts'], needsTools: true },
  'bench:pdf': { run: ['bench/pdf.ts'], needsTools: true },
  'bench:reading': { run: ['bench/reading.ts'], needsTools: true },
  'bench:answers': { run: ['bench/answers.ts'], needsTools: true },
  'bench:alignment': { run: ['bench/alignment.ts'], needsTools: true },
  'bench:costs': { run: ['bench/costs.ts'], needsTools: true },
  'bench:queues': { run: ['bench/queues.ts'], needsTools: true },
  check: { run: ['scripts/check.ts'] },
  'check:deploy': { run: ['scripts/check-deploy.ts'], needsTools: true },
  docs: { run: ['scripts/generate-docs.ts'] },
  format: { run: ['node_modules/@biomejs/biome/bin/biome', 'check', '--write'], defaults: ['.'] },
};

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof BootstrapFailure ? error.message : error);
  process.exit(1);
}

/** @param {string[]} args */
async function main([name = '', ...args]) {
  if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
    throw new BootstrapFailure(`Node ${OLDEST_NODE} or newer is needed; this is ${process.versions.node}.`);
  }
  const command = COMMANDS[name];
  if (!command) throw new BootstrapFailure(`There is no command "${name}": use ${Object.keys(COMMANDS).join(', ')}.`);

  const root = join(dirname(fileURLToPath(import.meta.url)), '..');
  process.chdir(root);
  const cacheDir = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'agent-conversation-service');
  const toolsDir = toolsFolder(root, cacheDir);
  await installPackages(root, cacheDir, { needsDevelopment: command.isProduct !== true });
  await installOnce({
    what: 'languages of OCR',
    size: '1 to 3 MB each in node_modules',
    lockPath: join(cacheDir, 'ocr-languages.lock'),
    isDone: () => missingOcrLanguages(root).length === 0,
    install: () => installOcrLanguages(root, missingOcrLanguages(root)),
  });
  const node = findNode(root);
  if (command.needsTools) await installTools(root, toolsDir);

  runInForeground(node, [...command.run, ...(args.length > 0 ? args : (command.defaults ?? []))], {
    NODE_COMPILE_CACHE: join(cacheDir, 'compile-cache'),
    ...process.env,
    // Child processes find the same Node as `node`.
    PATH: [dirname(node), process.env.PATH].join(delimiter),
    TOOLS_DIR: toolsDir,
    MODEL_DIR: process.env.MODEL_DIR || join(cacheDir, 'models'),
    // V8 reports imprecise coverage for code from the compile cache.
    ...(name === 'coverage' && { NODE_DISABLE_COMPILE_CACHE: '1' }),
  });
}
