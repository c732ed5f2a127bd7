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
import { withHeartbeats } from './heartbeats.ts';

export type ErasureActivities = ReturnType<typeof createErasureActivities>;

export function createErasureActivities({ erasure }: { erasure: ErasureService }) {
  return {
    stopWork: (input: ErasureSubject): Promise<void> => withHeartbeats(({ signal }) => erasure.stopWork(input, signal)),

    eraseDocuments: (input: EraseSliceInput): Promise<EraseSliceResult> =>
      withHeartbeats(({ signal }) => erasure.eraseDocuments(input, signal)),

    eraseRows: (input: EraseRowsInput): Promise<EraseSliceResult> =>
      withHeartbeats(({ signal }) => erasure.eraseRows(input, signal)),

    forgetLeaver: (input: FinishErasureInput): Promise<{ isMore: boolean }> =>
      withHeartbeats(() => erasure.forget(input)),

    recordErasure: (input: RecordErasureInput): Promise<void> => withHeartbeats(() => erasure.recordErasure(input)),

    recordParkedErasure: (input: RecordErasureFailureInput): Promise<void> =>
      withHeartbeats(() => erasure.recordParked(input)),

    recordResumedErasure: (input: ErasureSubject): Promise<void> => withHeartbeats(() => erasure.recordResumed(input)),

    recordErasureFailure: (input: RecordErasureFailureInput): Promise<void> =>
      withHeartbeats(() => erasure.recordFailure(input)),
  };
}
