import { Context } from '@temporalio/activity';
import type { AlignmentActivities } from '#activities/alignment.ts';
import type { AnchorWordActivities } from '#activities/anchoring.ts';
import type { CleanUpActivities } from '#activities/clean-up.ts';
import type { ConnectorActivities } from '#activities/connectors.ts';
import type { DeletionActivities } from '#activities/deletion.ts';
import type { ErasureActivities } from '#activities/erasure.ts';
import type { EvaluationActivities } from '#activities/evaluation.ts';
import type { ExportActivities } from '#activities/exports.ts';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type { PreviewActivities } from '#activities/previews.ts';
import type { ReembeddingActivities } from '#activities/reembedding.ts';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import type { ConvertResult } from '#src/contracts/ingestion.ts';
import { zeroJudgeTokenUsage } from '#src/domain/judging/judgement.ts';
import { until } from './until.ts';

export type Activities = AlignmentActivities &
  (AnchorWordActivities &
    CleanUpActivities &
    ConnectorActivities &
    DeletionActivities &
    ErasureActivities &
    EvaluationActivities) &
  (ExportActivities & IngestionActivities & PreviewActivities & ReembeddingActivities & StoreAuditActivities);

export const converted: ConvertResult = { charCount: 12, pageCount: null, reused: false };
export const oneCall = {
  spent: { ...zeroJudgeTokenUsage, calls: 1, inputTokens: 10, completionTokens: 2, costUsd: 0.5 },
  failed: [],
};

/** What activities return unless a test replaces them. The others return nothing. */
const usual: Partial<Activities> = {
  ingestAtOnce: async () => ({ converted, chunksTotal: 3, isDone: true }),
  parseDocument: async () => ({ sourceFormat: 'text', sizeBytes: 12 }),
  convertDocument: async () => converted,
  chunkDocument: async () => ({ chunksTotal: 3 }),
  embedChunks: async () => ({ chunksEmbedded: 3 }),
  renderPreview: async () => ({ sizeBytes: 30_000, reused: false }),
  alignPages: async () => ({ pageCount: 3 }),
  scoreNextRound: async () => ({ scored: false }),
  proposeWords: async () => ({ count: 40 }),
  planEvaluation: async () => ({ rubric: 'plain', judgesPrompt: true, cases: [true, false], calls: 5 }),
  answerCase: async () => oneCall,
  judgeUnit: async () => oneCall,
  countExport: async () => ({ total: 100 }),
  writeVolume: async () => ({ records: 100, isMore: false }),
  eraseDocuments: async () => ({ erased: 1, isMore: false }),
  eraseRows: async () => ({ erased: 1, isMore: false }),
  forgetLeaver: async () => ({ isMore: false }),
  awaitReembeddings: async ({ jobIds }) => ({ done: jobIds, failed: [] }),
};

export type StubActivities = ReturnType<typeof stubActivities>;

/** Activities of any workflow, which record their calls. Those in `replaced` run in place of the usual ones. */
export function stubActivities(replaced: Partial<Activities> = {}) {
  const stubs: Record<string, unknown> = { ...usual, ...replaced };
  const calls: { name: string; input: unknown }[] = [];
  /** With the kind of rows behind the name of an activity that erases rows. */
  const names: string[] = [];
  const timesOf = (name: keyof Activities) => calls.filter((call) => call.name === name).length;
  return {
    calls,
    names,
    timesOf,
    untilCalled: (name: keyof Activities, times = 1) => until(`${name} was called`, async () => timesOf(name) >= times),
    activities: {
      /** Temporal calls it for every activity type that the worker does not know by name. */
      async default(input: unknown): Promise<unknown> {
        const name = Context.current().info.activityType;
        const { what } = Object(input);
        calls.push({ name, input });
        names.push(what === undefined ? name : `${name} ${what}`);
        const stub = stubs[name];
        return typeof stub === 'function' ? stub(input) : undefined;
      },
    },
  };
}

/** Throws in the first attempt of an activity, so that Temporal retries it. */
export function failFirstAttempt(fault: Error): void {
  if (Context.current().info.attempt === 1) throw fault;
}

/** Waits until the activity is cancelled. Heartbeats often, because a heartbeat response delivers the cancellation. */
export async function untilCancelled(): Promise<never> {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), 20);
  try {
    return await context.cancelled;
  } finally {
    clearInterval(timer);
  }
}
