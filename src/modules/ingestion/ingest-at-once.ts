import type { AtOnceResult, IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { maxSmallChunks } from '#src/domain/small-document.ts';
import type { IngestionService, Step } from './ingestion.service.ts';

/** Reading them may take a minute each, in which operators should see what is going on. */
const slowFormats: readonly string[] = ['pdf'];

/**
 * All steps of a small document, one after the other. One that turns out not to be small is left where that was seen,
 * and each step finds what was stored before.
 */
export async function ingestAtOnce(
  ingestion: Pick<IngestionService, 'parse' | 'convert' | 'chunk' | 'embed' | 'activate'>,
  of: IngestDocumentInput,
  { signal }: Pick<Step, 'signal'>,
): Promise<AtOnceResult> {
  // A beat with news costs the engine more than some of these steps; those of its timer go on.
  const step: Step = { signal, report: () => undefined };
  const { sourceFormat } = await ingestion.parse(of, step);
  if (slowFormats.includes(sourceFormat)) return { converted: null, chunksTotal: null, isDone: false };
  const converted = await ingestion.convert(of, step);
  if (converted.needsWindows || converted.needsContexts) return { converted, chunksTotal: null, isDone: false };
  const { chunksTotal } = await ingestion.chunk(of, step);
  if (chunksTotal > maxSmallChunks) return { converted, chunksTotal, isDone: false };
  const { chunksLeft = 0 } = await ingestion.embed(of, step);
  if (chunksLeft > 0) return { converted, chunksTotal, isDone: false };
  await ingestion.activate(of, step);
  return { converted, chunksTotal, isDone: true };
}
