import { spawn } from 'node:child_process';
import { delimiter } from 'node:path';

const NPM_CHECK_INTERVAL_MS = 1_000;
/** Exit code after an interruption, like that of a shell after SIGINT. */
const CUT_SHORT = 130;

/** An error whose message tells the user what is missing. It is printed without a stack. */
export class BootstrapFailure extends Error {}

/**
 * Runs a program and collects its output. Forwards Ctrl-C and SIGTERM to it; this process then exits with 130.
 * @param {string} program
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<{ code: number, output: string }>} `output` has standard output and standard error
 */
export function runQuietly(program, args, env = process.env) {
  return new Promise((resolve, reject) => {
    let isCutShort = false;
    const stopListening = onSignal((signal) => {
      if (!isCutShort) console.error('Stopping …');
      isCutShort = true;
      child.kill(signal);
    });
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text;
      });
    }
    child.on('error', reject).on('close', (code, signal) => {
      stopListening();
      if (isCutShort) process.exit(CUT_SHORT);
      if (signal !== null) output += `\n${program} was ended by ${signal}.`;
      resolve({ code: code ?? 1, output });
    });
  });
}

/**
 * Runs a program on this terminal and exits with its exit code.
 * @param {string} program
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
export function runInForeground(program, args, env) {
  let isCutShort = false;
  onSignal((signal) => {
    isCutShort = true;
    child.kill(signal);
  });
  // The IPC channel tells the program when this process dies, even from SIGKILL.
  const child = spawn(program, args, { env, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  stopWithNpm(child);
  child.on('exit', (code, signal) => {
    // A signal ends the program only before it has installed its handlers, when it has no work to lose.
    if (signal !== null && isCutShort) process.exit(CUT_SHORT);
    if (signal !== null) console.error(`The command was ended by ${signal}.`);
    process.exit(code ?? 1);
  });
}

/**
 * Stops the program when npm was killed by SIGKILL, which shows only as a new parent process. Does nothing without npm:
 * then the parent may exit, as a shell does after `nohup`.
 * @param {import('node:child_process').ChildProcess} child
 */
function stopWithNpm(child) {
  if (process.env.npm_lifecycle_event === undefined) return;
  const npm = process.ppid;
  setInterval(() => {
    if (process.ppid !== npm) child.kill('SIGTERM');
  }, NPM_CHECK_INTERVAL_MS).unref();
}

/**
 * Removes the `node_modules/.bin` folders that npm adds to PATH.
 * @param {NodeJS.ProcessEnv} env
 * @returns {NodeJS.ProcessEnv}
 */
export function withoutLocalPrograms(env) {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  return { ...env, PATH: folders.join(delimiter) };
}

/**
 * @param {(signal: NodeJS.Signals) => void} listener
 * @returns a function that removes the listeners
 */
function onSignal(listener) {
  const signals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
  for (const signal of signals) process.on(signal, listener);
  return () => {
    for (const signal of signals) process.off(signal, listener);
  };
}
