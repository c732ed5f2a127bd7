import type {
  EraseRowsInput,
  EraseSliceInput,
  EraseSliceResult,
  ForgetLeaverInput,
  Legacy,
  RecordErasureFailureInput,
  RecordErasureInput,
} from '#src/contracts/erasure.ts';
import type { ErasureService } from '#src/modules/erasure/erasure.service.ts';
import { heartbeating } from './heartbeating.ts';

export type ErasureActivities = ReturnType<typeof createErasureActivities>;

/** The steps of `eraseContent`. Each may run twice, also at the same time, with the same result. */
export function createErasureActivities({ erasure }: { erasure: ErasureService }) {
  return {
    stopWork: (input: Legacy): Promise<void> => heartbeating(({ signal }) => erasure.stopWork(input, signal)),

    eraseDocuments: (input: EraseSliceInput): Promise<EraseSliceResult> =>
      heartbeating(({ signal }) => erasure.eraseDocuments(input, signal)),

    eraseRows: (input: EraseRowsInput): Promise<EraseSliceResult> =>
      heartbeating(({ signal }) => erasure.eraseRows(input, signal)),

    forgetLeaver: (input: ForgetLeaverInput): Promise<{ isMore: boolean }> => heartbeating(() => erasure.forget(input)),

    recordErasure: (input: RecordErasureInput): Promise<void> => heartbeating(() => erasure.recordErasure(input)),

    recordParkedErasure: (input: RecordErasureFailureInput): Promise<void> =>
      heartbeating(() => erasure.recordParked(input)),

    recordResumedErasure: (input: Legacy): Promise<void> => heartbeating(() => erasure.recordResumed(input)),

    recordErasureFailure: (input: RecordErasureFailureInput): Promise<void> =>
      heartbeating(() => erasure.recordFailure(input)),
  };
}
