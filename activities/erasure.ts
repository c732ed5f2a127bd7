import type {
  EraseRowsInput,
  EraseSliceInput,
  EraseSliceResult,
  ErasureSubject,
  FinishErasureInput,
  RecordErasureFailureInput,
  RecordErasureInput,
} from '#src/contracts/deletion.ts';
import type { ErasureService } from '#src/modules/erasure/erasure.service.ts';
import { heartbeating } from './heartbeating.ts';

export type ErasureActivities = ReturnType<typeof createErasureActivities>;

/** Activities of `eraseContent`. All are idempotent and safe to run concurrently. */
export function createErasureActivities({ erasure }: { erasure: ErasureService }) {
  return {
    stopWork: (input: ErasureSubject): Promise<void> => heartbeating(({ signal }) => erasure.stopWork(input, signal)),

    eraseDocuments: (input: EraseSliceInput): Promise<EraseSliceResult> =>
      heartbeating(({ signal }) => erasure.eraseDocuments(input, signal)),

    eraseRows: (input: EraseRowsInput): Promise<EraseSliceResult> =>
      heartbeating(({ signal }) => erasure.eraseRows(input, signal)),

    forgetLeaver: (input: FinishErasureInput): Promise<{ isMore: boolean }> =>
      heartbeating(() => erasure.forget(input)),

    recordErasure: (input: RecordErasureInput): Promise<void> => heartbeating(() => erasure.recordErasure(input)),

    recordParkedErasure: (input: RecordErasureFailureInput): Promise<void> =>
      heartbeating(() => erasure.recordParked(input)),

    recordResumedErasure: (input: ErasureSubject): Promise<void> => heartbeating(() => erasure.recordResumed(input)),

    recordErasureFailure: (input: RecordErasureFailureInput): Promise<void> =>
      heartbeating(() => erasure.recordFailure(input)),
  };
}
