import type {
  AtOnceResult,
  ChunkResult,
  ConvertResult,
  EmbedResult,
  IngestDocumentInput,
  ParseResult,
  RecordIngestionEndInput,
  RecordIngestionFailureInput,
  SituateResult,
  WindowsResult,
} from '#src/contracts/ingestion.ts';
import type { IngestionService } from '#src/modules/ingestion/ingestion.service.ts';
import { heartbeating } from './heartbeating.ts';

export type IngestionActivities = ReturnType<typeof createIngestionActivities>;

/** Activities of `ingestDocument`. All are idempotent and safe to run concurrently. */
export function createIngestionActivities({ ingestion }: { ingestion: IngestionService }) {
  return {
    ingestAtOnce: (input: IngestDocumentInput): Promise<AtOnceResult> =>
      heartbeating((step) => ingestion.atOnce(input, step)),

    parseDocument: (input: IngestDocumentInput): Promise<ParseResult> =>
      heartbeating((step) => ingestion.parse(input, step)),

    convertDocument: (input: IngestDocumentInput): Promise<ConvertResult> =>
      heartbeating((step) => ingestion.convert(input, step)),

    embedWindows: (input: IngestDocumentInput): Promise<WindowsResult> =>
      heartbeating((step) => ingestion.embedWindows(input, step)),

    situateChunks: (input: IngestDocumentInput): Promise<SituateResult> =>
      heartbeating((step) => ingestion.situate(input, step)),

    chunkDocument: (input: IngestDocumentInput): Promise<ChunkResult> =>
      heartbeating((step) => ingestion.chunk(input, step)),

    embedChunks: (input: IngestDocumentInput): Promise<EmbedResult> =>
      heartbeating((step) => ingestion.embed(input, step)),

    activateGeneration: (input: IngestDocumentInput): Promise<void> =>
      heartbeating((step) => ingestion.activate(input, step)),

    recordParked: (input: RecordIngestionFailureInput): Promise<void> =>
      heartbeating(() => ingestion.recordParked(input)),

    recordResumed: (input: IngestDocumentInput): Promise<void> => heartbeating(() => ingestion.recordResumed(input)),

    recordFailure: (input: RecordIngestionFailureInput): Promise<void> =>
      heartbeating((step) => ingestion.recordFailure(input, step)),

    recordCancellation: (input: RecordIngestionEndInput): Promise<void> =>
      heartbeating((step) => ingestion.recordCancellation(input, step)),
  };
}
