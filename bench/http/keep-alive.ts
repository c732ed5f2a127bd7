import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** One request, written once, and how long every answer to it is: so that the load costs little beside the server. */
export type FixedRequest = { port: number; bytes: Buffer; answerBytes: number };

/** @throws when the first answer is not 200 */
export async function fixedRequest(port: number, path: string, token: string): Promise<FixedRequest> {
  const lines = [`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, `Authorization: Bearer ${token}`];
  const bytes = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
  const socket = await open(port);
  socket.write(bytes);
  let answer = '';
  for await (const chunk of socket) {
    answer += chunk;
    const [, bodyBytes] = /\r\ncontent-length: (\d+)\r\n/i.exec(answer) ?? [];
    const headBytes = answer.indexOf('\r\n\r\n') + 4;
    if (bodyBytes !== undefined && answer.length >= headBytes + Number(bodyBytes)) {
      if (!answer.startsWith('HTTP/1.1 200 ')) throw new Error(`GET ${path} answered ${answer.slice(0, headBytes)}`);
      return { port, bytes, answerBytes: headBytes + Number(bodyBytes) };
    }
  }
  throw new Error(`GET ${path} got no whole answer.`);
}

export async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}

/** Sends the request on an open connection and waits for the whole answer. */
export function ask(socket: Socket, request: FixedRequest): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let received = 0;
  const read = (chunk: Buffer) => {
    if (received === 0 && !chunk.subarray(0, 13).equals(ok)) reject(new Error(chunk.toString().slice(0, 200)));
    received += chunk.length;
    if (received < request.answerBytes) return;
    socket.off('data', read);
    resolve();
  };
  socket.on('data', read);
  socket.write(request.bytes);
  return promise;
}

const ok = Buffer.from('HTTP/1.1 200 ');

/** As many requests as go through so many connections. @returns their number per second */
export async function hammer(request: FixedRequest, connections: number, durationMs: number): Promise<number> {
  const startedAt = performance.now();
  let answers = 0;
  const caller = async () => {
    const socket = await open(request.port);
    while (performance.now() - startedAt < durationMs) {
      await ask(socket, request);
      answers += 1;
    }
    socket.destroy();
  };
  await Promise.all(Array.from({ length: connections }, caller));
  return (answers / (performance.now() - startedAt)) * 1_000;
}

/**
 * A request every so often, whether or not those before are answered.
 * @returns what each took, from when it was due; milliseconds
 */
export async function paced(request: FixedRequest, everyMs: number, count: number): Promise<number[]> {
  const free: Socket[] = [];
  const startedAt = performance.now();
  const one = async (place: number): Promise<number> => {
    const dueAt = startedAt + place * everyMs;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, dueAt - performance.now())));
    const socket = free.pop() ?? (await open(request.port));
    await ask(socket, request);
    free.push(socket);
    return performance.now() - Math.max(dueAt, startedAt);
  };
  const latencies = await Promise.all(Array.from({ length: count }, (_, place) => one(place)));
  for (const socket of free) socket.destroy();
  return latencies;
}
