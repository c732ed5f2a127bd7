import type {
  AtOnceResult,
  ChunkResult,
  ConvertResult,
  EmbedResult,
  IngestDocumentInput,
  ParseResult,
} from '#src/contracts/ingestion.ts';
import { isPlain, maxSmallChunks } from '#src/domain/documents/rag-config.ts';

/** Cancellation and progress (heartbeat details) of an activity. */
export type Step = { signal: AbortSignal; report: (details: unknown) => void };

type Take<Result> = (of: IngestDocumentInput, step: Step) => Promise<Result>;

type Steps = {
  parse: Take<ParseResult>;
  convert: Take<ConvertResult>;
  chunk: Take<ChunkResult>;
  embed: Take<EmbedResult>;
  activate: Take<void>;
};

/**
 * Runs all steps of a small document in one activity. Stops when the document turns out not to be small; the steps that
 * follow find what was stored.
 */
export async function ingestAtOnce(
  steps: Steps,
  of: IngestDocumentInput,
  { signal }: Pick<Step, 'signal'>,
): Promise<AtOnceResult> {
  // Progress reports cost Temporal more than some of these steps. The heartbeats of the timer continue.
  const step: Step = { signal, report: () => undefined };
  const { sourceFormat } = await steps.parse(of, step);
  if (!isPlain(sourceFormat)) return { converted: null, chunksTotal: null, isDone: false };
  const converted = await steps.convert(of, step);
  if (converted.needsWindows || converted.needsContexts) return { converted, chunksTotal: null, isDone: false };
  const { chunksTotal } = await steps.chunk(of, step);
  if (chunksTotal > maxSmallChunks) return { converted, chunksTotal, isDone: false };
  const { chunksLeft = 0 } = await steps.embed(of, step);
  if (chunksLeft > 0) return { converted, chunksTotal, isDone: false };
  await steps.activate(of, step);
  return { converted, chunksTotal, isDone: true };
}
