import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { StartFailure } from './start-failure.ts';

const FIRST_FREE = 12_000;
const END_FREE = 32_768;

export type ChosenPort = { setting: string; host: string; port: number };

/** @throws StartFailure with one line for each setting whose port is in use or chosen twice */
export async function checkPortsAreFree(chosen: readonly ChosenPort[]): Promise<void> {
  const settings = new Map<number, string>();
  const problems: string[] = [];
  for (const { setting, host, port } of chosen) {
    const other = settings.get(port);
    settings.set(port, setting);
    const refusal = other === undefined ? await bind(host, port) : null;
    if (other !== undefined)
      problems.push(`${setting} and ${other} are both ${port}: set one of them to another port.`);
    if (refusal !== null) problems.push(explain({ setting, host, port }, refusal));
  }
  if (problems.length > 0) throw new StartFailure(problems.join('\n'));
}

/**
 * Finds unused ports of 127.0.0.1 below the ephemeral range (from 32768 on Linux, 49152 elsewhere): an outgoing
 * connection could take an ephemeral port before its program listens.
 */
export async function findFreePorts(count: number): Promise<number[]> {
  const free = new Set<number>();
  while (free.size < count) {
    const port = randomInt(FIRST_FREE, END_FREE);
    const refusal = await bind('127.0.0.1', port);
    if (refusal === null) free.add(port);
    else if (refusal !== 'EADDRINUSE') throw new StartFailure(`Cannot listen on 127.0.0.1 (${refusal}).`);
  }
  return [...free];
}

function explain({ setting, host, port }: ChosenPort, code: string): string {
  if (code === 'EADDRINUSE') {
    return `Port ${port} on ${host} is taken: stop the program that uses it, or set ${setting} to another port.`;
  }
  if (code === 'EACCES')
    return `Port ${port} needs more rights than this user has: set ${setting} to a port above 1023.`;
  return `Cannot listen on ${host}:${port} (${code}): check HOST and ${setting}.`;
}

async function bind(host: string, port: number): Promise<string | null> {
  try {
    const server = await listen(host, port);
    await once(server.close(), 'close');
    return null;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error);
  }
}

async function listen(host: string, port: number) {
  const server = createServer().listen(port, host);
  await once(server, 'listening');
  return server;
}
