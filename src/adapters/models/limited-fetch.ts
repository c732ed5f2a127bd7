import { appError } from '#src/errors.ts';

export type AnswerLimits = {
  /** Of the whole answer, unpacked. */
  maxBytes: number;
  /** For the whole answer; of a stream, until it begins. */
  deadlineMs: number;
  /** Of one event, where a stream is asked for. */
  maxEventBytes?: number;
};

/** `\n\n`, `\r\r` and `\r\n\r\n` end an event; the beginning of one may be the end of a piece. */
const eventEnds = ['\n\n', '\r\r', '\r\n\r\n'];
const eventEndBytes = 4;

/**
 * A `fetch` with limits: the client of OpenAI reads answers and refusals into memory whatever their size, and waits for
 * the end of a refusal for ever.
 * @param heard called for whatever arrives, also for comments, which the client of a stream keeps to itself
 */
export function limitedFetch(limits: AnswerLimits, heard: () => void = () => {}): typeof fetch {
  const { maxBytes, deadlineMs, maxEventBytes } = limits;
  return async (input, init) => {
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(tooSlow()), deadlineMs).unref();
    const response = await fetch(input, {
      ...init,
      signal: AbortSignal.any([init?.signal ?? [], deadline.signal].flat()),
    });
    heard();
    if (response.ok && maxEventBytes !== undefined) clearTimeout(timer);
    if (response.body === null) return response;
    const openBytes = maxEventBytes === undefined ? () => 0 : createEventMeter();
    let sizeBytes = 0;
    const limited = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        heard();
        sizeBytes += bytes.length;
        if (sizeBytes > maxBytes || openBytes(bytes) > (maxEventBytes ?? maxBytes)) throw endless();
        controller.enqueue(bytes);
      },
      flush: () => clearTimeout(timer),
    });
    return new Response(response.body.pipeThrough(limited), response);
  };
}

/** Returns the bytes of the event that is not complete yet, for each piece of a stream. */
function createEventMeter(): (bytes: Uint8Array) => number {
  let openBytes = 0;
  let tail: Uint8Array = new Uint8Array();
  return (bytes) => {
    const seen = Buffer.concat([tail, bytes]);
    const end = Math.max(...eventEnds.map((sign) => seen.lastIndexOf(sign)));
    openBytes = end < 0 ? openBytes + bytes.length : seen.length - end;
    tail = seen.subarray(-eventEndBytes + 1);
    return openBytes;
  };
}

function tooSlow() {
  return appError('model_unavailable', { detail: 'The model service does not come to the end of its answer.' });
}

/** Not `too large`: such a refusal would be taken for one of a request that is too large. */
function endless() {
  return appError('model_response_invalid', { detail: 'The answer of the model service finds no end.' });
}
