import type { IncomingMessage } from 'node:http';
import { isStorable } from '#src/domain/plain-text.ts';
import { AppError, appError, fieldError } from '#src/errors.ts';

const defaultLimitBytes = 1024 * 1024;
const jsonType = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/** Reads a JSON body. None at all counts as `{}`, so that a body of optional fields may be left out. */
export async function readJsonBody(req: IncomingMessage, limitBytes = defaultLimitBytes): Promise<unknown> {
  const text = await readText(req, limitBytes);
  if (text === '') return {};
  const type = req.headers['content-type'] ?? '';
  if (!jsonType.test(type)) {
    throw appError('unsupported_media_type', { detail: 'This takes a body of type application/json.' });
  }
  try {
    return mayWriteUnstorable.test(text) ? JSON.parse(text, refuseUnstorable) : JSON.parse(text);
  } catch (error) {
    throw error instanceof AppError ? error : appError('malformed_request', { detail: 'The body is not valid JSON.' });
  }
}

/** Only escapes can write NUL or half a character; without them there is nothing to look for. */
const mayWriteUnstorable = /\\u(?:0000|d[89a-f])/i;

function refuseUnstorable(key: string, value: unknown): unknown {
  if (!isStorable(key) || (typeof value === 'string' && !isStorable(value))) {
    throw fieldError(key.toWellFormed(), 'must not hold NUL or half a character', 'not_text');
  }
  return value;
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
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(parts));
  } catch (error) {
    if (error instanceof TypeError) throw appError('malformed_request', { detail: 'The body is not valid UTF-8.' });
    if (req.destroyed && !req.complete) throw appError('malformed_request', { detail: 'The body broke off.' });
    throw error;
  }
}
