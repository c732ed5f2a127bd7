import type { Payload, PayloadCodec } from '@temporalio/common';

/** What the engine reads itself, what tells traces apart, and names of changes of code: no codec is asked about them. */
const neverSealed = new Set(['searchAttributes', 'header', 'markerRecordedEventAttributes']);

/** Replaces each payload of a history by what a codec makes of it. */
export async function mapPayloads<T>(message: T, codec: PayloadCodec['encode']): Promise<T> {
  if (typeof message !== 'object' || message === null || ArrayBuffer.isView(message)) return message;
  if (isPayload(message)) return (await codec([message]))[0] as T;
  if (Array.isArray(message)) return (await Promise.all(message.map((item) => mapPayloads(item, codec)))) as T;
  // Messages keep their prototype, by which they are written.
  for (const [name, value] of Object.entries(message)) {
    if (!neverSealed.has(name)) Object.assign(message, { [name]: await mapPayloads(value, codec) });
  }
  return message;
}

/** Each payload of a history, and each message of a failure. */
export async function readable(message: unknown): Promise<{ payloads: Payload[]; failures: string[] }> {
  const payloads: Payload[] = [];
  await mapPayloads(message, async (found) => {
    payloads.push(...found);
    return found;
  });
  const failures = [...JSON.stringify(message).matchAll(/"message":("(?:[^"\\]|\\.)*")/g)];
  return { payloads, failures: failures.map(([, text = '""']) => JSON.parse(text) as string) };
}

function isPayload(value: object): value is Payload {
  return 'metadata' in value && 'data' in value && !('summary' in value);
}
