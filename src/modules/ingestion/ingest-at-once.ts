import type {
  AtOnceResult,
  ChunkResult,
  ConvertResult,
  EmbedResult,
  IngestDocumentInput,
  ParseResult,
} from '#src/contracts/ingestion.ts';
import { isPlain, maxSmallChunks } from '#src/domain/small-document.ts';
import type { Step } from './ingestion.service.ts';

type Take<Result> = (of: IngestDocumentInput, step: Step) => Promise<Result>;

type Steps = {
  parse: Take<ParseResult>;
  convert: Take<ConvertResult>;
  chunk: Take<ChunkResult>;
  embed: Take<EmbedResult>;
  activate: Take<void>;
};

/**
 * All steps of a small document, one after the other. One that turns out not to be small is left where that was seen,
 * and each step finds what was stored before.
 */
export async function ingestAtOnce(
  steps: Steps,
  of: IngestDocumentInput,
  { signal }: Pick<Step, 'signal'>,
): Promise<AtOnceResult> {
  // A beat with news costs the engine more than some of these steps; those of its timer go on.
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
