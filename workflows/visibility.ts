import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common';
import { getCurrentDetails, setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import type { SearchAttributeName } from '#src/contracts/jobs.ts';

const keyword = (name: SearchAttributeName) => defineSearchAttributeKey(name, 'KEYWORD');

/** The attribute is written only when it changes, because each write is an event of the history. */
export function showRunStage(stage: string, details: string): void {
  const key = keyword('Stage');
  if (workflowInfo().typedSearchAttributes.get(key) !== stage) upsertSearchAttributes([{ key, value: stage }]);
  show(details);
}

export function showRunProgress(details: string): void {
  show(details);
}

export function searchAttributesForChildWorkflow(): SearchAttributePair[] {
  const { typedSearchAttributes } = workflowInfo();
  return (['OrgId', 'ConnectionId', 'JobKind'] as const).flatMap((name) => {
    const value = typedSearchAttributes.get(keyword(name));
    return value === undefined ? [] : [{ key: keyword(name), value }];
  });
}

export function showRunFailure(failure: { code: string; message: string }): void {
  upsertSearchAttributes([{ key: keyword('ErrorCode'), value: failure.code }]);
  show(`Failed: **${failure.code}**. ${failure.message}`);
}

/**
 * Removes the error code from a run that continues, because operators take an open run with a code for a parked one.
 */
export function clearRunErrorCode(): void {
  upsertSearchAttributes([{ key: keyword('ErrorCode'), value: null }]);
}

export function appendRunProgress(details: string): void {
  setCurrentDetails(`${getCurrentDetails()}\n\n${details}`);
}

/** Shows why the run is parked and how to continue it. Returns a function that restores the earlier text. */
export function showRunParked(failure: { code: string; message: string }): () => void {
  const details = getCurrentDetails();
  upsertSearchAttributes([{ key: keyword('ErrorCode'), value: failure.code }]);
  show(
    `Parked: **${failure.code}**. ${failure.message}\n\n` +
      'After fixing the cause, the update `retry` repeats this step; the update `skip` ends the run as failed.',
  );
  return () => {
    clearRunErrorCode();
    setCurrentDetails(details);
  };
}

/**
 * Shows text as the run's details in the Temporal UI. If the run was continued as new, the summary from its memo is put
 * in front.
 */
function show(details: string): void {
  const { continuedFromExecutionRunId, memo } = workflowInfo();
  const summary = continuedFromExecutionRunId === undefined ? undefined : memo?.summary;
  setCurrentDetails(typeof summary === 'string' ? `${summary}\n\n${details}` : details);
}
