import type {
  AwaitReembeddingsInput,
  AwaitReembeddingsResult,
  OpenReembeddingsInput,
  OpenReembeddingsResult,
  RecordReembeddingEndInput,
  RecordReembeddingFailureInput,
  RecordReembeddingInput,
  RecordReembeddingPauseInput,
} from '#src/contracts/reembedding.ts';
import type { ReembeddingService } from '#src/modules/reembedding/reembedding.service.ts';
import { heartbeating } from './heartbeating.ts';

export type ReembeddingActivities = ReturnType<typeof createReembeddingActivities>;

/** Activities of `reembedOrganization`. All are idempotent and safe to run concurrently. */
export function createReembeddingActivities({ reembedding }: { reembedding: ReembeddingService }) {
  return {
    countReembeddings: (input: { orgId: string; model: string }): Promise<{ total: number }> =>
      heartbeating(() => reembedding.count(input)),

    openReembeddings: (input: OpenReembeddingsInput): Promise<OpenReembeddingsResult> =>
      heartbeating(({ signal }) => reembedding.openSome(input, signal)),

    awaitReembeddings: (input: AwaitReembeddingsInput): Promise<AwaitReembeddingsResult> =>
      heartbeating(({ signal }) => reembedding.awaitSome(input, signal)),

    recordReembeddingPause: (input: RecordReembeddingPauseInput): Promise<void> =>
      heartbeating(() => reembedding.recordPause(input)),

    recordReembedding: (input: RecordReembeddingInput): Promise<void> =>
      heartbeating(() => reembedding.recordSuccess(input)),

    recordParkedReembedding: (input: RecordReembeddingFailureInput): Promise<void> =>
      heartbeating(() => reembedding.recordParked(input)),

    recordResumedReembedding: (input: { orgId: string }): Promise<void> =>
      heartbeating(() => reembedding.recordResumed(input)),

    recordReembeddingFailure: (input: RecordReembeddingFailureInput): Promise<void> =>
      heartbeating(() => reembedding.recordFailure(input)),

    recordReembeddingCancellation: (input: RecordReembeddingEndInput): Promise<void> =>
      heartbeating(() => reembedding.recordCancellation(input)),
  };
}
