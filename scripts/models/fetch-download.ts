import { SourceFailure } from './fetch-failure.ts';
import type { PartialFile } from './partial-file.ts';

/** Timeout for the response headers; after it the next source is tried. */
const ANSWER_TIMEOUT_MS = 15_000;
const SILENCE_TIMEOUT_MS = 30_000;

/** Resumes a partial download if the server supports range requests. */
export async function fetchDownload(options: {
  url: string;
  sizeBytes: number;
  partial: PartialFile;
  onProgress: (doneBytes: number) => void;
}): Promise<void> {
  const { url, sizeBytes, partial, onProgress } = options;
  const watch = watchSilence();
  try {
    const begun = await partial.size();
    const response = await fetch(url, { headers: { range: `bytes=${begun}-` }, signal: watch.signal });
    if (!response.ok || !response.body) throw new SourceFailure(`${url} answered ${response.status}`);
    const start = response.status === 206 ? begun : 0;
    await partial.cutTo(start);
    await partial.append(bounded(response.body, start));
    const done = await partial.size();
    if (done < sizeBytes) throw new SourceFailure(`${url} ended after ${done} of ${sizeBytes} bytes`);
  } catch (error) {
    if (watch.signal.aborted) throw new SourceFailure(`${url} does not respond`);
    // `fetch` throws a TypeError for every network error and has the reason in `cause`.
    if (error instanceof TypeError) throw new SourceFailure(`${url}: ${reasonOf(error)}`);
    throw error;
  } finally {
    watch.stop();
  }

  async function* bounded(body: AsyncIterable<Uint8Array>, start: number) {
    let done = start;
    for await (const chunk of body) {
      watch.heard();
      done += chunk.length;
      if (done > sizeBytes) throw new SourceFailure(`${url} sends more than the ${sizeBytes} bytes of the file`);
      yield chunk;
      onProgress(done);
    }
  }
}

function reasonOf(error: TypeError): string {
  return error.cause instanceof Error ? error.cause.message : error.message;
}

function watchSilence() {
  const controller = new AbortController();
  let timer = setTimeout(() => controller.abort(), ANSWER_TIMEOUT_MS);
  return {
    signal: controller.signal,
    heard(): void {
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), SILENCE_TIMEOUT_MS);
    },
    stop: () => clearTimeout(timer),
  };
}
