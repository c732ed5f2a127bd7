import { Context } from '@temporalio/activity';
import type { AlignmentActivities } from '#activities/alignment.ts';
import type { AnchorWordActivities } from '#activities/anchoring.ts';
import type { ConnectorActivities } from '#activities/connectors.ts';
import type { DeletionActivities } from '#activities/deletion.ts';
import type { ErasureActivities } from '#activities/erasure.ts';
import type { EvaluationActivities } from '#activities/evaluation.ts';
import type { ExportActivities } from '#activities/exports.ts';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type { PreviewActivities } from '#activities/previews.ts';
import type { ReembeddingActivities } from '#activities/reembedding.ts';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import type { ImportCounts, ImportFileResult } from '#src/contracts/connectors.ts';
import type { AuditStorePageInput, EraseRowsInput } from '#src/contracts/deletion.ts';
import type { EvaluationPlan, EvaluationStepsResult } from '#src/contracts/evaluation.ts';
import { zeroJudgeTokenUsage } from '#src/domain/judging/judgement.ts';

type Call<Name> = { name: Name; input: unknown };
type Stubs<Activities> = { [Name in keyof Activities]?: Activities[Name] };

type RecordedCalls<Activities extends object> = {
  activities: Activities;
  /** All calls so far, in order. */
  calls: Call<keyof Activities>[];
  names: (keyof Activities)[];
  /** Resolves once an activity was called this number of times. */
  untilCalled(name: keyof Activities, times?: number): Promise<void>;
};

/** Stub activities of any workflow. */
export type AnyStub = {
  activities: object;
  names: readonly string[];
  untilCalled(name: string, times?: number): Promise<void>;
};

/**
 * Activities of a workflow under test: those in `stubs` run, all others succeed at once with no result. Records the
 * calls. `onCall` is called before an activity runs.
 */
function stubActivities<Activities extends object>(
  stubs: Stubs<Activities>,
  onCall: (call: Call<keyof Activities>) => void = () => undefined,
): RecordedCalls<Activities> {
  const calls: Call<keyof Activities>[] = [];
  const names: (keyof Activities)[] = [];
  const waiting = new Set<() => void>();
  const call = (name: keyof Activities, input: unknown): unknown => {
    calls.push({ name, input });
    names.push(name);
    onCall({ name, input });
    for (const check of waiting) check();
    return (stubs[name] as ((input: unknown) => unknown) | undefined)?.(input);
  };
  const ofName = (name: string) => [name, (input: unknown) => call(name as keyof Activities, input)];
  const others = (input: unknown) => call(Context.current().info.activityType as keyof Activities, input);
  return {
    // Temporal calls `default` for every activity type that is not named.
    activities: { ...Object.fromEntries(Object.keys(stubs).map(ofName)), default: others },
    calls,
    names,
    untilCalled: (name, times = 1) =>
      new Promise((resolve) => {
        const check = () => {
          if (names.filter((called) => called === name).length < times) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
  };
}

/** Throws in the first attempt of an activity, so that Temporal retries it. */
export function failFirstAttempt(fault: Error): void {
  if (Context.current().info.attempt === 1) throw fault;
}

/** Waits until the activity is cancelled. Heartbeats often, because a heartbeat response delivers the cancellation. */
export async function untilCancelled(): Promise<never> {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), HEARTBEAT_INTERVAL_MS);
  try {
    return await context.cancelled;
  } finally {
    clearInterval(timer);
  }
}

const HEARTBEAT_INTERVAL_MS = 20;

/** Scores `waiting` rounds; `arrive` adds one. */
export function stubAlignment(waiting: number, stubs: Stubs<AlignmentActivities> = {}) {
  let left = waiting;
  let round = 0;
  const recorded: RecordedCalls<AlignmentActivities> = stubActivities<AlignmentActivities>({
    scoreNextRound: async () => {
      if (left === 0) return { scored: false };
      left -= 1;
      round += 1;
      const isUntitled = !recorded.names.includes('nameChat');
      return { scored: true, round, state: 'stable', ewma: 100, isUntitled };
    },
    ...stubs,
  });
  const arrive = () => {
    left += 1;
  };
  return { ...recorded, arrive };
}

export const stubAnchoring = (stubs: Stubs<AnchorWordActivities> = {}) =>
  stubActivities<AnchorWordActivities>({ proposeWords: async () => ({ count: 40 }), ...stubs });

/** Imports of a connection with `total` new files. Each is pending until it is fetched or fails. */
export function stubConnectors(total: number, stubs: Stubs<ConnectorActivities> = {}) {
  const ended = new Map<number, ImportFileResult>();
  const counts = (): ImportCounts => {
    const results = [...ended.values()];
    const of = (status: ImportFileResult['status']) => results.filter((result) => result.status === status).length;
    const [added, updated, unchanged, failed] = [of('added'), of('updated'), of('unchanged'), of('failed')];
    return { total, added, updated, unchanged, deleted: 0, failed };
  };
  const { fetchFile = async () => ({ status: 'added', code: null }) as const, ...others } = stubs;
  return stubActivities<ConnectorActivities>({
    queueSyncOfConnection: async ({ connectionId }) => ({
      jobId: `sync-${connectionId}`,
      reason: 'the schedule fired.',
    }),
    listFiles: async () => ({ counts: counts(), isMore: false }),
    pendingFiles: async () => {
      const numbers = Array.from({ length: total }, (_, index) => index + 1).filter((n) => !ended.has(n));
      return { numbers: numbers.slice(0, 500), counts: counts() };
    },
    deleteMissing: async () => ({ counts: counts(), isMore: false, mustListAgain: false }),
    finishImport: async () => counts(),
    recordFileFailure: async ({ n, error }) => {
      ended.set(n, { status: 'failed', code: error.code });
    },
    ...others,
    fetchFile: async (input) => {
      const result = await fetchFile(input);
      ended.set(input.n, result);
      return result;
    },
  });
}

export const stubDeletion = (stubs: Stubs<DeletionActivities> = {}) => stubActivities<DeletionActivities>(stubs);

/**
 * An erasure whose documents take `documentSlices` calls, with one row of each kind. `names` has the kind of rows behind
 * the name of an activity that erases rows.
 */
export function stubErasure(documentSlices: number, stubs: Stubs<ErasureActivities> = {}) {
  const perSlice = 20;
  const names: string[] = [];
  const recorded = stubActivities<ErasureActivities>(
    {
      eraseDocuments: async ({ erased }) => ({
        erased: perSlice,
        isMore: erased + perSlice < documentSlices * perSlice,
      }),
      eraseRows: async () => ({ erased: 1, isMore: false }),
      forgetLeaver: async () => ({ isMore: false }),
      ...stubs,
    },
    ({ name, input }) => {
      const { what } = input as Partial<EraseRowsInput>;
      names.push(what === undefined ? name : `${name} ${what}`);
    },
  );
  return { ...recorded, names };
}

/** The cost of one answer of a model. */
export const oneCall: EvaluationStepsResult = {
  spent: { ...zeroJudgeTokenUsage, calls: 1, inputTokens: 10, completionTokens: 2, costUsd: 0.5 },
  failed: [],
};

/** An evaluation with this plan, whose models answer at once. */
export const stubEvaluation = (plan: Partial<EvaluationPlan> = {}, stubs: Stubs<EvaluationActivities> = {}) =>
  stubActivities<EvaluationActivities>({
    planEvaluation: async () => ({ rubric: 'plain', judgesPrompt: true, cases: [true, false], calls: 5, ...plan }),
    answerCase: async () => oneCall,
    judgeUnit: async () => oneCall,
    ...stubs,
  });

/** An export of the given number of volumes, with 100 records each. */
export const stubExports = (volumes: number, stubs: Stubs<ExportActivities> = {}) =>
  stubActivities<ExportActivities>({
    countExport: async () => ({ total: volumes * 100 }),
    writeVolume: async ({ number }) => ({ records: 100, isMore: number < volumes }),
    ...stubs,
  });

const converted = { charCount: 12, pageCount: null, reused: false };

export const stubIngestion = (stubs: Stubs<IngestionActivities> = {}) =>
  stubActivities<IngestionActivities>({
    ingestAtOnce: async () => ({ converted, chunksTotal: 3, isDone: true }),
    parseDocument: async () => ({ sourceFormat: 'text', sizeBytes: 12 }),
    convertDocument: async () => converted,
    embedWindows: async () => ({ windowsEmbedded: 12, windowsLeft: 0 }),
    situateChunks: async () => ({ chunksSituated: 3, chunksLeft: 0 }),
    chunkDocument: async () => ({ chunksTotal: 3 }),
    embedChunks: async () => ({ chunksEmbedded: 3 }),
    ...stubs,
  });

export const stubPreviews = (stubs: Stubs<PreviewActivities> = {}) =>
  stubActivities<PreviewActivities>({
    renderPreview: async () => ({ sizeBytes: 30_000, reused: false }),
    alignPages: async () => ({ pageCount: 3 }),
    ...stubs,
  });

/** An organization with the given number of documents, whose ingestions succeed at once. */
export function stubReembedding(documents: number, stubs: Stubs<ReembeddingActivities> = {}) {
  const ids = Array.from({ length: documents }, (_, index) => `document-${String(index).padStart(4, '0')}`);
  return stubActivities<ReembeddingActivities>({
    countReembeddings: async () => ({ total: documents }),
    openReembeddings: async ({ after, limit }) => {
      const page = ids.filter((id) => id > (after ?? '')).slice(0, limit);
      return { jobIds: page, settled: 0, after: page.length < limit ? null : (page.at(-1) ?? null) };
    },
    awaitReembeddings: async ({ jobIds }) => ({ done: jobIds, failed: [] }),
    ...stubs,
  });
}

/** An audit with the given number of pages of documents, which finds one document without vectors. */
export function stubStoreAudit(documentPages: number, stubs: Stubs<StoreAuditActivities> = {}) {
  const pages: AuditStorePageInput[] = [];
  const recorded = stubActivities<StoreAuditActivities>({
    auditPage: async (input) => {
      pages.push(input);
      const page = Number(input.after ?? 1);
      if (input.pass !== 'documents') return { checked: 1, findings: {}, next: null };
      const summary = { found: 1, repaired: input.repair ? 1 : 0, first: [`document-${page}`] };
      const findings = page === 1 ? { missing_points: summary } : {};
      return { checked: 10, findings, next: page < documentPages ? String(page + 1) : null };
    },
    ...stubs,
  });
  return { ...recorded, pages };
}
