import type { IncomingMessage } from 'node:http';
import { appError } from '#src/errors.ts';
import { soundInput } from './sound-input.ts';

const MiB = 1024 * 1024;
const MS_PER_MIB = 30_000;
/**
 * Fields and elements in all. The largest form has half as many; each costs microseconds whenever the body is looked at,
 * and a megabyte holds half a million.
 */
const maxValues = 10_000;
const jsonType = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/**
 * Reads a JSON body. None at all counts as `{}`, so that a body of optional fields may be left out. Throws
 * `payload_too_large` beyond `limitBytes` or ten thousand fields and elements, `request_timeout` after 30 seconds for
 * each MiB that it may have, `unsupported_media_type` and `malformed_request`.
 */
export async function readJsonBody(req: IncomingMessage, limitBytes = MiB): Promise<unknown> {
  const longestMs = MS_PER_MIB * Math.max(1, limitBytes / MiB);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const detail = `The body has to arrive within ${Math.round(longestMs / 1_000)} seconds.`;
    late.reject(appError('request_timeout', { detail }));
  }, longestMs);
  const text = await Promise.race([readText(req, limitBytes), late.promise]).finally(() => clearTimeout(timer));
  if (text === '') return {};
  const type = req.headers['content-type'] ?? '';
  if (!jsonType.test(type)) {
    throw appError('unsupported_media_type', { detail: 'This takes a body of type application/json.' });
  }
  return soundInput(parseJson(text));
}

/** Counts what begins a value in JSON, outside of strings: a comma or an opening bracket. */
function hasMoreValues(json: Buffer, limit: number): boolean {
  let values = 0;
  let isInString = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === 0x22) isInString = !isInString;
    else if (isInString) {
      // What a backslash escapes ends no string.
      if (byte === 0x5c) at += 1;
    } else if (byte === 0x2c || byte === 0x5b || byte === 0x7b) {
      values += 1;
      if (values > limit) return true;
    }
  }
  return false;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw appError('malformed_request', { detail: 'The body is not valid JSON.' });
  }
}

async function readText(req: IncomingMessage, limitBytes: number): Promise<string> {
  const encoding = req.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity') {
    throw appError('unsupported_media_type', { detail: 'Compressed bodies are not taken.' });
  }
  const tooLarge = () => appError('payload_too_large', { detail: `The body may have at most ${limitBytes} bytes.` });
  if (Number(req.headers['content-length'] ?? 0) > limitBytes) throw tooLarge();

  const parts: Buffer[] = [];
  let size = 0;
  try {
    // Leaving the loop early must not destroy the socket: the client still has to read our answer.
    for await (const part of req.iterator({ destroyOnReturn: false })) {
      size += part.length;
      if (size > limitBytes) throw tooLarge();
      parts.push(part);
    }
    const bytes = Buffer.concat(parts);
    if (hasMoreValues(bytes, maxValues)) {
      throw appError('payload_too_large', { detail: `The body may have at most ${maxValues} fields and elements.` });
    }
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) throw appError('malformed_request', { detail: 'The body is not valid UTF-8.' });
    if (req.destroyed && !req.complete) throw appError('malformed_request', { detail: 'The body broke off.' });
    throw error;
  }
}
