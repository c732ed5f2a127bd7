import { defineSearchAttributeKey } from '@temporalio/common';
import { getCurrentDetails, setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import type { SearchAttributeName } from '#src/contracts/jobs.ts';

const keyword = (name: SearchAttributeName) => defineSearchAttributeKey(name, 'KEYWORD');

/** Tells operators where the run stands: a search attribute to filter by, and a line to read. */
export function showStage(stage: string, details: string): void {
  upsertSearchAttributes([{ key: keyword('Stage'), value: stage }]);
  setCurrentDetails(details);
}

export function showFailure(failure: { code: string; message: string }): void {
  upsertSearchAttributes([{ key: keyword('ErrorCode'), value: failure.code }]);
  setCurrentDetails(`Failed: **${failure.code}**. ${failure.message}`);
}

/**
 * Says what the run waits for and how it goes on.
 * @returns takes it back
 */
export function showParked(failure: { code: string; message: string }): () => void {
  const details = getCurrentDetails();
  upsertSearchAttributes([{ key: keyword('ErrorCode'), value: failure.code }]);
  setCurrentDetails(
    `Parked: **${failure.code}**. ${failure.message}\n\n` +
      'Once that is mended, the update `retry` goes on with this step; the update `skip` ends the run as failed.',
  );
  return () => {
    upsertSearchAttributes([{ key: keyword('ErrorCode'), value: null }]);
    setCurrentDetails(details);
  };
}
