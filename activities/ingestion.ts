import type {
  ActivateGenerationInput,
  ChunkResult,
  ConvertResult,
  EmbedResult,
  EmbedWindowsResult,
  ImportArchiveInput,
  ImportArchiveResult,
  IngestAtOnceResult,
  IngestDocumentInput,
  ParseResult,
  RecordIngestionEndInput,
  RecordIngestionFailureInput,
  SituateChunksResult,
} from '#src/contracts/ingestion.ts';
import type { ArchivesService } from '#src/modules/archives/archives.service.ts';
import type { IngestionService } from '#src/modules/ingestion/ingestion.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type IngestionActivities = ReturnType<typeof createIngestionActivities>;

export function createIngestionActivities({
  ingestion,
  archives,
}: {
  ingestion: IngestionService;
  archives: ArchivesService;
}) {
  return {
    ingestAtOnce: (input: IngestDocumentInput): Promise<IngestAtOnceResult> =>
      withHeartbeats((step) => ingestion.atOnce(input, step)),

    parseDocument: (input: IngestDocumentInput): Promise<ParseResult> =>
      withHeartbeats((step) => ingestion.parse(input, step)),

    importArchive: (input: ImportArchiveInput): Promise<ImportArchiveResult> =>
      withHeartbeats((step) => archives.importFiles(input, step)),

    convertDocument: (input: IngestDocumentInput): Promise<ConvertResult> =>
      withHeartbeats((step) => ingestion.convert(input, step)),

    embedWindows: (input: IngestDocumentInput): Promise<EmbedWindowsResult> =>
      withHeartbeats((step) => ingestion.embedWindows(input, step)),

    situateChunks: (input: IngestDocumentInput): Promise<SituateChunksResult> =>
      withHeartbeats((step) => ingestion.situate(input, step)),

    chunkDocument: (input: IngestDocumentInput): Promise<ChunkResult> =>
      withHeartbeats((step) => ingestion.chunk(input, step)),

    embedChunks: (input: IngestDocumentInput): Promise<EmbedResult> =>
      withHeartbeats((step) => ingestion.embed(input, step)),

    activateGeneration: (input: ActivateGenerationInput): Promise<void> =>
      withHeartbeats((step) => ingestion.activate(input, step)),

    recordParked: (input: RecordIngestionFailureInput): Promise<void> =>
      withHeartbeats(() => ingestion.recordParked(input)),

    recordResumed: (input: IngestDocumentInput): Promise<void> => withHeartbeats(() => ingestion.recordResumed(input)),

    recordFailure: (input: RecordIngestionFailureInput): Promise<void> =>
      withHeartbeats((step) => ingestion.recordFailure(input, step)),

    recordCancellation: (input: RecordIngestionEndInput): Promise<void> =>
      withHeartbeats((step) => ingestion.recordCancellation(input, step)),
  };
}
