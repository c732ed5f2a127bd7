import { appError } from '#src/errors.ts';

export type Silence = {
  /** Aborted once nothing was heard for too long, or the stream took too long. */
  signal: AbortSignal;
  heard(): void;
  stop(): void;
};

/**
 * The client's own timeout ends with the headers of a stream.
 * @param longestMs for the whole stream, whatever is heard
 */
export function watchSilence(timeoutMs: number, longestMs: number): Silence {
  const controller = new AbortController();
  const giveUp = (detail: string) => controller.abort(appError('model_unavailable', { detail }));
  const silence = setTimeout(giveUp, timeoutMs, 'The model service stopped answering.');
  const end = setTimeout(giveUp, longestMs, 'The model service does not come to the end of its answer.');
  return {
    signal: controller.signal,
    heard: () => silence.refresh(),
    stop: () => {
      clearTimeout(silence);
      clearTimeout(end);
    },
  };
}
