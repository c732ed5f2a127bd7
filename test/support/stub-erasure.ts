import type { ErasureActivities } from '#activities/erasure.ts';
import type { EraseRowsInput } from '#src/contracts/deletion.ts';
import { recordCalls } from './stub-calls.ts';

const SLICE = 20;

/**
 * Stubs erasure activities: `eraseDocuments` takes `documentSlices` calls, `eraseRows` erases one row of each kind.
 * `calls` has the names of the activities called, in order, with the kind of rows if there is one.
 */
export function stubErasure(documentSlices: number, replaced: Partial<ErasureActivities> = {}) {
  const calls: string[] = [];
  const stubs: ErasureActivities = {
    stopWork: async () => undefined,
    eraseDocuments: async ({ erased }) => ({ erased: SLICE, isMore: erased + SLICE < documentSlices * SLICE }),
    eraseRows: async () => ({ erased: 1, isMore: false }),
    forgetLeaver: async () => ({ isMore: false }),
    recordErasure: async () => undefined,
    recordParkedErasure: async () => undefined,
    recordResumedErasure: async () => undefined,
    recordErasureFailure: async () => undefined,
    ...replaced,
  };
  const { activities, untilCalled } = recordCalls(stubs, ({ name, input }) => {
    const { what } = input as Partial<EraseRowsInput>;
    calls.push(what === undefined ? name : `${name} ${what}`);
  });
  return { activities, calls, untilCalled };
}
