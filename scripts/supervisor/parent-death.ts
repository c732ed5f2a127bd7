import { spawnSync } from 'node:child_process';

let supported: boolean | undefined;

/**
 * The command, wrapped so that the kernel signals it when its parent dies, however that happened. Where the machine
 * has no `setpriv` (macOS) the command is unchanged, and what an earlier supervisor left is swept at the next start.
 */
export function dieWithParent(command: readonly [string, ...string[]], signal: string): [string, ...string[]] {
  supported ??= spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true'], { stdio: 'ignore' }).status === 0;
  return supported ? ['setpriv', '--pdeathsig', signal.replace('SIG', ''), '--', ...command] : [...command];
}
