import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { BootstrapFailure, runQuietly } from './child.mjs';
import { installOnce } from './once.mjs';

const OLDEST_PYTHON = [3, 10];

/**
 * Returns the folder for the programs and models of the embedded services. Its name has a hash of its contents, so that
 * checkouts share it and versions do not mix.
 * @param {string} root
 * @param {string} cacheDir
 */
export function toolsFolder(root, cacheDir) {
  if (process.env.TOOLS_DIR) return resolve(process.env.TOOLS_DIR);
  return wheelsFolder('tools', toolsRequirements(root), cacheDir);
}

/**
 * @param {string} root
 * @param {string} toolsDir
 */
export async function installTools(root, toolsDir) {
  await installWheels({
    what: 'the embedded services',
    size: '260 MB in your cache',
    requirements: toolsRequirements(root),
    folder: toolsDir,
  });
}

/**
 * Returns the folder for the Python packages of requirements files, named after a hash of the files.
 * @param {string} name
 * @param {readonly string[]} requirements the paths of the files
 * @param {string} cacheDir
 */
export function wheelsFolder(name, requirements, cacheDir) {
  const contents = createHash('sha256')
    .update(`${requirements.map((path) => readFileSync(path, 'utf8')).join('')}${process.platform}-${process.arch}`)
    .digest('hex');
  return join(cacheDir, `${name}-${contents.slice(0, 16)}`);
}

/**
 * Installs Python packages with pip, which verifies every hash, unless they are installed.
 * @param {{ what: string, size: string, requirements: readonly string[], folder: string }} wheels
 */
export async function installWheels({ what, size, requirements, folder }) {
  await installOnce({
    what,
    size,
    lockPath: `${folder}.lock`,
    isDone: () => existsSync(folder),
    install: async () => {
      await checkMachine();
      const draft = `${folder}.new`;
      rmSync(draft, { recursive: true, force: true });
      const args = [
        ...['-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check'],
        ...['--root-user-action=ignore', '--no-deps', '--only-binary=:all:', '--require-hashes', '--no-compile'],
        ...['--target', draft, ...requirements.flatMap((path) => ['--requirement', path])],
      ];
      // Some distributions make pip default to `--user`, which conflicts with `--target`.
      const { code, output } = await runQuietly('python3', args, { ...process.env, PIP_USER: '0' });
      if (code !== 0) throw new BootstrapFailure(`Could not install ${what}:\n${output.trim()}`);
      renameSync(draft, folder);
    },
  });
}

async function checkMachine() {
  const musl = process.platform === 'linux' && !hasGlibc();
  if (!['linux', 'darwin'].includes(process.platform) || musl) {
    const here = musl ? 'a Linux without glibc (such as Alpine)' : process.platform;
    throw new BootstrapFailure(`The embedded services exist for Linux with glibc and for macOS, not for ${here}.`);
  }
  const oldest = OLDEST_PYTHON.join('.');
  const question = `import sys; sys.exit(sys.version_info < (${OLDEST_PYTHON.join(', ')}))`;
  if (!(await succeeds('python3', ['-c', question]))) {
    throw new BootstrapFailure(`Python ${oldest} or newer is needed, as \`python3\`: install it and try again.`);
  }
  if (!(await succeeds('python3', ['-m', 'pip', '--version']))) {
    throw new BootstrapFailure('pip is needed, as `python3 -m pip`: install it (Debian: python3-pip) and try again.');
  }
}

function hasGlibc() {
  const report = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
  return report.header.glibcVersionRuntime !== undefined;
}

/**
 * @param {string} program
 * @param {string[]} args
 */
async function succeeds(program, args) {
  const { code } = await runQuietly(program, args).catch(() => ({ code: 1 }));
  return code === 0;
}

/** @param {string} root */
function toolsRequirements(root) {
  return ['runtime', 'postgres', 'tools'].map((name) => join(root, 'scripts', `requirements-${name}.txt`));
}
