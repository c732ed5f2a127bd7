import { spawn } from 'node:child_process';
import { delimiter } from 'node:path';

const NPM_CHECK_INTERVAL_MS = 1_000;
/** The exit code of what somebody cut short. */
const CUT_SHORT = 130;

/** What the person did not do, or the machine lacks: printed as it is, without a stack. */
export class BootstrapFailure extends Error {}

/**
 * Runs a program quietly to its end. It is a child that can be interrupted: Ctrl-C and SIGTERM reach it, and this
 * process then ends with it, whatever it complains about.
 * @param {string} program
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<{ code: number, output: string }>} what it wrote to either stream
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
      if (signal !== null) output += `\nIt was ended by ${signal}.`;
      resolve({ code: code ?? 1, output });
    });
  });
}

/**
 * Hands the terminal over to a program and ends with its exit code.
 * @param {string} program
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
export function handOver(program, args, env) {
  let isCutShort = false;
  onSignal((signal) => {
    isCutShort = true;
    child.kill(signal);
  });
  // By the channel the program notices the death of this process, even one that sends no signal.
  const child = spawn(program, args, { env, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  stopWithNpm(child);
  child.on('exit', (code, signal) => {
    // It was too young to end in good order, and had nothing to lose.
    if (signal !== null && isCutShort) process.exit(CUT_SHORT);
    if (signal !== null) console.error(`The command was ended by ${signal}.`);
    process.exit(code ?? 1);
  });
}

/**
 * npm that is killed outright says nothing: its script is then the child of somebody else. Without npm in between,
 * a parent may leave, as a shell does after `nohup`.
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
 * The environment with a PATH as it was before npm put the checkout's own programs in front.
 * @param {NodeJS.ProcessEnv} env
 * @returns {NodeJS.ProcessEnv}
 */
export function withoutLocalPrograms(env) {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  return { ...env, PATH: folders.join(delimiter) };
}

/**
 * Listens before the program runs, so that no signal comes too early.
 * @param {(signal: NodeJS.Signals) => void} listener
 * @returns what ends the listening
 */
function onSignal(listener) {
  const signals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
  for (const signal of signals) process.on(signal, listener);
  return () => {
    for (const signal of signals) process.off(signal, listener);
  };
}
