import type {
  AwaitReembeddingsInput,
  AwaitReembeddingsResult,
  OpenReembeddingsInput,
  OpenReembeddingsResult,
  RecordReembeddingEndInput,
  RecordReembeddingFailureInput,
  RecordReembeddingInput,
  RecordReembeddingPauseInput,
} from '#src/contracts/ingestion.ts';
import type { ReembeddingService } from '#src/modules/reembedding/reembedding.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type ReembeddingActivities = ReturnType<typeof createReembeddingActivities>;

export function createReembeddingActivities({ reembedding }: { reembedding: ReembeddingService }) {
  return {
    countReembeddings: (input: { orgId: string; model: string }): Promise<{ total: number }> =>
      withHeartbeats(() => reembedding.count(input)),

    openReembeddings: (input: OpenReembeddingsInput): Promise<OpenReembeddingsResult> =>
      withHeartbeats(({ signal }) => reembedding.openSome(input, signal)),

    awaitReembeddings: (input: AwaitReembeddingsInput): Promise<AwaitReembeddingsResult> =>
      withHeartbeats(({ signal }) => reembedding.awaitSome(input, signal)),

    recordReembeddingPause: (input: RecordReembeddingPauseInput): Promise<void> =>
      withHeartbeats(() => reembedding.recordPause(input)),

    recordReembedding: (input: RecordReembeddingInput): Promise<void> =>
      withHeartbeats(() => reembedding.recordSuccess(input)),

    recordParkedReembedding: (input: RecordReembeddingFailureInput): Promise<void> =>
      withHeartbeats(() => reembedding.recordParked(input)),

    recordResumedReembedding: (input: { orgId: string }): Promise<void> =>
      withHeartbeats(() => reembedding.recordResumed(input)),

    recordReembeddingFailure: (input: RecordReembeddingFailureInput): Promise<void> =>
      withHeartbeats(() => reembedding.recordFailure(input)),

    recordReembeddingCancellation: (input: RecordReembeddingEndInput): Promise<void> =>
      withHeartbeats(() => reembedding.recordCancellation(input)),
  };
}
