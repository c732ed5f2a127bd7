import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { StartFailure } from './start-failure.ts';

/** A port that a setting chose. */
export type ChosenPort = { setting: string; host: string; port: number };

/** @throws StartFailure with a line for each setting whose port is taken, or chosen twice */
export async function checkPortsAreFree(chosen: readonly ChosenPort[]): Promise<void> {
  const settings = new Map<number, string>();
  const problems: string[] = [];
  for (const { setting, host, port } of chosen) {
    const other = settings.get(port);
    settings.set(port, setting);
    const refusal = other === undefined ? await bind(host, port) : null;
    if (other !== undefined) problems.push(`${setting} and ${other} are both ${port}: choose another for one.`);
    if (refusal !== null) problems.push(explain({ setting, host, port }, refusal));
  }
  if (problems.length > 0) throw new StartFailure(problems.join('\n'));
}

/** Ports of 127.0.0.1 that nothing uses at this moment. */
export async function findFreePorts(count: number): Promise<number[]> {
  // All are held at once: a port that is given back early could be handed out twice.
  const servers = await Promise.all(Array.from({ length: count }, () => listen('127.0.0.1', 0)));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

function explain({ setting, host, port }: ChosenPort, code: string): string {
  if (code === 'EADDRINUSE') {
    return `Port ${port} on ${host} is taken: stop the program that uses it, or set ${setting} to another port.`;
  }
  if (code === 'EACCES') return `Port ${port} needs more rights than this user has: set ${setting} to one above 1023.`;
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
