import { defineSearchAttributeKey } from '@temporalio/common';
import { setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
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
