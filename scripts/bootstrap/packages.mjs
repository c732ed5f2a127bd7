import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BootstrapFailure, runQuietly, withoutLocalPrograms } from './child.mjs';
import { installOnce } from './once.mjs';
import { removeUnusedFiles } from './unused-files.mjs';

const WANTED_NODE = 24;

/**
 * Installs the npm packages of package-lock.json unless they are installed.
 * @param {string} root
 * @param {string} cacheDir
 * @param {{ needsDevelopment: boolean }} options whether packages for tests and checks are needed, too
 */
export async function installPackages(root, cacheDir, { needsDevelopment }) {
  const lockFile = readFileSync(join(root, 'package-lock.json'));
  const product = hash(lockFile, process.platform, process.arch);
  const all = `${product} and development`;
  const markerPath = join(root, 'node_modules', '.installed');
  await installOnce({
    what: 'packages',
    size: needsDevelopment ? '0.8 GB in node_modules' : '0.6 GB in node_modules',
    // The lock is not in node_modules, because npm deletes that folder first.
    lockPath: join(cacheDir, `packages-${hash(root)}.lock`),
    isDone: () => {
      const installed = existsSync(markerPath) ? readFileSync(markerPath, 'utf8') : '';
      if (installed === all || (installed === product && !needsDevelopment)) return true;
      if (!matchesLockFile(root, lockFile)) return false;
      writeFileSync(markerPath, all);
      return true;
    },
    install: async () => {
      // npm deletes node_modules first, so it must not run on a Node from that folder. No package needs an install
      // script. What is installed does not depend on NODE_ENV.
      const development = needsDevelopment ? '--include=dev' : '--omit=dev';
      const args = ['ci', '--ignore-scripts', development, '--include=optional', '--loglevel=error'];
      const { code, output } = await runQuietly('npm', args, withoutLocalPrograms(process.env));
      if (code !== 0) throw new BootstrapFailure(`The packages could not be installed:\n${output.trim()}`);
      removeUnusedFiles(join(root, 'node_modules'));
      writeFileSync(markerPath, needsDevelopment ? all : product);
    },
  });
}

/**
 * Returns whether the installed packages match package-lock.json, after an `npm install` by hand, which writes no
 * marker. npm lists what it has installed in node_modules/.package-lock.json.
 * @param {string} root
 * @param {Buffer} lockFile
 */
function matchesLockFile(root, lockFile) {
  /** @typedef {{ integrity?: string, optional?: boolean, devOptional?: boolean, os?: string[], cpu?: string[] }} Entry */
  /** @type {Record<string, Entry>} */
  let installed;
  try {
    installed = JSON.parse(readFileSync(join(root, 'node_modules', '.package-lock.json'), 'utf8')).packages ?? {};
  } catch {
    // The list is missing or incomplete after an interrupted installation.
    return false;
  }
  /** @type {Record<string, Entry>} */
  const { '': _root, ...wanted } = JSON.parse(lockFile.toString()).packages;
  return (
    Object.keys(installed).every((path) => path in wanted) &&
    Object.entries(wanted).every(([path, { integrity, optional, devOptional }]) => {
      const entry = installed[path];
      if (!entry) return optional === true || devOptional === true;
      return entry.integrity === integrity && runsHere(entry.os, process.platform) && runsHere(entry.cpu, process.arch);
    })
  );
}

/**
 * @param {string[] | undefined} supported
 * @param {string} here
 */
function runsHere(supported, here) {
  return supported === undefined || supported.includes(here);
}

/**
 * Returns the path of a Node that runs TypeScript: the current one if it is new enough, otherwise that of the npm
 * package. The package is checked, because npm silently skips an optional package that it cannot fetch.
 * @param {string} root
 * @returns {string}
 */
export function findNode(root) {
  if (major(process.versions.node) >= WANTED_NODE && existsSync(process.execPath)) return process.execPath;
  const packaged = join(root, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');
  const { stdout } = spawnSync(packaged, ['--version'], { encoding: 'utf8' });
  if (major((stdout ?? '').replace('v', '')) >= WANTED_NODE) return packaged;
  throw new BootstrapFailure(
    `Node ${WANTED_NODE} is needed, and none could be installed for ${process.platform}-${process.arch}: install Node ${WANTED_NODE} or newer and try again.`,
  );
}

/** @param {string} version */
function major(version) {
  return Number.parseInt(version, 10);
}

/** @param {(string | Buffer)[]} parts */
function hash(...parts) {
  const sum = createHash('sha256');
  for (const part of parts) sum.update(part).update('\n');
  return sum.digest('hex').slice(0, 16);
}
