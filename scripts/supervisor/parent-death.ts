import { spawnSync } from 'node:child_process';

let supported: boolean | undefined;

/**
 * Wraps a command so that the kernel signals its process when the parent dies for any reason. Without `setpriv` (macOS)
 * the command is unchanged; the next start stops processes that were left behind.
 */
export function dieWithParent(command: readonly [string, ...string[]], signal: string): [string, ...string[]] {
  supported ??= spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true'], { stdio: 'ignore' }).status === 0;
  return supported ? ['setpriv', '--pdeathsig', signal.replace('SIG', ''), '--', ...command] : [...command];
}
