import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common';
import { getCurrentDetails, setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import type { SearchAttributeName } from '#src/contracts/jobs.ts';

const keyword = (name: SearchAttributeName) => defineSearchAttributeKey(name, 'KEYWORD');

/** Tells operators where the run stands: a search attribute to filter by, and a line to read. */
export function showStage(stage: string, details: string): void {
  upsertSearchAttributes([{ key: keyword('Stage'), value: stage }]);
  show(details);
}

/** How far the run is, within its stage. */
export function showProgress(details: string): void {
  show(details);
}

/** Of a run that is a part of this one. */
export function attributesOfPart(): SearchAttributePair[] {
  const { typedSearchAttributes } = workflowInfo();
  return (['OrgId', 'ConnectionId', 'JobKind'] as const).flatMap((name) => {
    const value = typedSearchAttributes.get(keyword(name));
    return value === undefined ? [] : [{ key: keyword(name), value }];
  });
}

export function showFailure(failure: { code: string; message: string }): void {
  upsertSearchAttributes([{ key: keyword('ErrorCode'), value: failure.code }]);
  show(`Failed: **${failure.code}**. ${failure.message}`);
}

/** Removes the error code from a run that tries again: an open run that has one waits for an operator. */
export function hideFailure(): void {
  upsertSearchAttributes([{ key: keyword('ErrorCode'), value: null }]);
}

/** How far the run came, below the words of its end. */
export function showStanding(details: string): void {
  setCurrentDetails(`${getCurrentDetails()}\n\n${details}`);
}

/**
 * Says what the run waits for and how it goes on.
 * @returns takes it back
 */
export function showParked(failure: { code: string; message: string }): () => void {
  const details = getCurrentDetails();
  upsertSearchAttributes([{ key: keyword('ErrorCode'), value: failure.code }]);
  show(
    `Parked: **${failure.code}**. ${failure.message}\n\n` +
      'Once that is mended, the update `retry` goes on with this step; the update `skip` ends the run as failed.',
  );
  return () => {
    hideFailure();
    setCurrentDetails(details);
  };
}

/** A run that goes on in a new history has left its static summary in the old one, and reads it out of its memo. */
function show(details: string): void {
  const { continuedFromExecutionRunId, memo } = workflowInfo();
  const summary = continuedFromExecutionRunId === undefined ? undefined : memo?.summary;
  setCurrentDetails(typeof summary === 'string' ? `${summary}\n\n${details}` : details);
}
