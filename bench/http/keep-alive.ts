import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/**
 * A serialized request and the length of its answers, so that the load generator costs little CPU time beside the
 * server.
 */
export type FixedRequest = { port: number; bytes: Buffer; answerBytes: number };

/** @throws when the first answer is not 200 */
export async function fixedRequest(port: number, path: string, token: string): Promise<FixedRequest> {
  const lines = [`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, `Authorization: Bearer ${token}`];
  const bytes = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
  const socket = await openConnection(port);
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
  throw new Error(`The connection closed before GET ${path} was answered completely.`);
}

export async function openConnection(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}

/** Sends the request on an open connection and waits for the complete answer. */
export function sendRequest(socket: Socket, request: FixedRequest): Promise<void> {
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

/**
 * Sends requests over `connections` as fast as they are answered.
 * @returns requests per second
 */
export async function runClosedLoopLoad(
  request: FixedRequest,
  connections: number,
  durationMs: number,
): Promise<number> {
  const startedAt = performance.now();
  let answers = 0;
  const caller = async () => {
    const socket = await openConnection(request.port);
    while (performance.now() - startedAt < durationMs) {
      await sendRequest(socket, request);
      answers += 1;
    }
    socket.destroy();
  };
  await Promise.all(Array.from({ length: connections }, caller));
  return (answers / (performance.now() - startedAt)) * 1_000;
}

/**
 * Sends requests at a fixed rate, whether or not earlier ones were answered.
 * @returns latencies from the scheduled time, in milliseconds
 */
export async function runOpenLoopLoad(request: FixedRequest, everyMs: number, count: number): Promise<number[]> {
  const free: Socket[] = [];
  const startedAt = performance.now();
  const one = async (place: number): Promise<number> => {
    const dueAt = startedAt + place * everyMs;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, dueAt - performance.now())));
    const socket = free.pop() ?? (await openConnection(request.port));
    await sendRequest(socket, request);
    free.push(socket);
    return performance.now() - Math.max(dueAt, startedAt);
  };
  const latencies = await Promise.all(Array.from({ length: count }, (_, place) => one(place)));
  for (const socket of free) socket.destroy();
  return latencies;
}
