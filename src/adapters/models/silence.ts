import { appError } from '#src/errors.ts';

export type Silence = {
  /** Aborted once nothing was heard for too long. */
  signal: AbortSignal;
  heard(): void;
  stop(): void;
};

/** The client's own timeout ends with the headers of a stream. */
export function watchSilence(timeoutMs: number): Silence {
  const controller = new AbortController();
  const giveUp = () =>
    controller.abort(appError('model_unavailable', { detail: 'The model service stopped answering.' }));
  const timer = setTimeout(giveUp, timeoutMs);
  return { signal: controller.signal, heard: () => timer.refresh(), stop: () => clearTimeout(timer) };
}

/**
 * A `fetch` that tells of whatever arrives: services send comments while a request waits its turn, which clients of a
 * stream keep to themselves.
 */
export function overhear(heard: () => void): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    heard();
    if (response.body === null) return response;
    const listening = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        heard();
        controller.enqueue(bytes);
      },
    });
    return new Response(response.body.pipeThrough(listening), response);
  };
}
