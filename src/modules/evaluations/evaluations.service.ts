import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { evaluationWorkflowId, versionComparisonWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import {
  type AgentPromptText,
  type ComparisonSpecification,
  type DocumentsOfReplies,
  type EvaluationSpecification,
  maxModelCallsOfComparison,
  maxModelCallsOfEvaluation,
  type TestCaseText,
} from '#src/domain/judging/judgement.ts';
import type {
  ComparisonResultWithKind,
  EvaluationResultWithKind,
  TestCaseResult,
} from '#src/domain/judging/outcome.ts';
import {
  hasReferenceAnswer,
  type JudgeRubric,
  judgeRubricVersion,
  selectJudgeRubric,
} from '#src/domain/judging/rubric.ts';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { appError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { DraftsService } from '#src/modules/drafts/drafts.service.ts';
import type { JobWatchService } from '#src/modules/jobs/job-watch.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RemainingTierQuota, TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import { type EvaluationRun, isCompleteEvaluationRun } from './evaluations.model.ts';
import { createEvaluationsRepository } from './evaluations.repository.ts';
import { type GoldenCaseSelection, selectGoldenCases } from './golden-cases.ts';

/** Days for which runs of prompts without a draft are kept. Until then an equal request gets their results. */
const ADHOC_RETENTION_DAYS = 30;
/**
 * Evaluation runs that one transaction deletes: few, because answers and verdicts that no other run uses are deleted
 * with them.
 */
const DELETION_BATCH_SIZE = 100;

export type EvaluationOptions = {
  evaluatorModel?: string | undefined;
  /** True to generate the answers to golden cases again instead of reusing stored answers. */
  isFresh: boolean;
  /** True to generate the replies from the documents that the caller may read, as a published agent does. */
  withDocuments: boolean;
  waitSeconds: number;
  signal: AbortSignal;
};

export type DraftVersionIds = { draftId: string; versionId: string };

export type EvaluationRunWithResults = { run: EvaluationRun; results: EvaluationResultWithKind };
export type VersionComparison = { specification: ComparisonSpecification; results: ComparisonResultWithKind };

export type EvaluationsService = ReturnType<typeof createEvaluationsService>;

/**
 * Runs evaluations for requests that wait for the results. All methods throw `unknown_model`,
 * `evaluation_case_limit_reached`, `eval_timeout` if the run does not end in time, and `eval_incomplete` if a verdict
 * is missing. Methods about a draft version also throw `draft_not_found`, `version_not_found` and `forbidden`.
 */
export function createEvaluationsService(deps: {
  db: Knex;
  drafts: Pick<DraftsService, 'lockOwnVersion'>;
  documents: Pick<DocumentsService, 'listRecent'>;
  limits: TierLimitsService;
  models: Pick<ModelsService, 'evaluator' | 'chatModels'>;
  jobs: Pick<JobsService, 'dispatch' | 'enqueue' | 'isOpen'>;
  logger: Pick<Logger, 'info'>;
  jobWatch: Pick<JobWatchService, 'untilOver'>;
}) {
  const { db, drafts, documents, limits, models, jobs, logger, jobWatch } = deps;
  const runs = createEvaluationsRepository(db);

  async function run(
    actor: RequestActor,
    options: EvaluationOptions,
    specify: (
      trx: Knex,
      judging: Pick<EvaluationSpecification, 'evaluatorModel' | 'rubricVersion' | 'draw' | 'documents'> & {
        defaultModel: string;
      },
    ) => Promise<EvaluationSpecification>,
  ): Promise<EvaluationRun> {
    const requested = options.evaluatorModel;
    const evaluatorModel = await models.evaluator(
      requested === undefined ? undefined : { id: requested, path: 'evaluator_model' },
    );
    const defaultModel = (await models.chatModels()).default;
    const draw = options.isFresh ? actor.requestId : null;
    const found = options.withDocuments ? await documentsOfReplies(documents, actor) : undefined;
    const opened = await limits.transaction(actor.orgId, async (trx) => {
      const places = await limits.lock(trx, actor.orgId);
      const specified = await specify(trx, {
        ...{ evaluatorModel, defaultModel, rubricVersion: judgeRubricVersion, draw },
        documents: found,
      });
      // An evaluation without cases generates no answers, so the request joins the existing run in spite of `isFresh` and
      // `withDocuments`.
      const specification =
        specified.cases.length === 0 ? { ...specified, draw: null, documents: undefined } : specified;
      return findOrStartEvaluationRun({ jobs, logger }, trx, actor, places, specification);
    });
    if (opened.state === 'complete') return opened.run;
    await jobs.dispatch(opened.run.id);
    return finishedRun(opened.run, options);
  }

  async function finishedRun(
    { orgId, id }: EvaluationRun,
    { waitSeconds, signal }: EvaluationOptions,
  ): Promise<EvaluationRun> {
    const job = await jobWatch.untilOver(id, waitSeconds, signal);
    const lastError = job.errorMessage === null ? '' : ` ${job.errorMessage}`;
    switch (job.status) {
      case 'succeeded': {
        const found = await runs.findRun({ orgId, runId: id });
        if (found === undefined)
          throw appError('eval_incomplete', {
            detail: `The evaluation run ${id} was deleted while the request waited.`,
          });
        return found;
      }
      case 'failed':
        if (job.errorCode === 'version_not_found') throw appError('version_not_found');
        throw appError('eval_incomplete', { detail: `The evaluation ${id} failed:${lastError}` });
      case 'cancelled':
        throw appError('eval_incomplete', {
          detail: `The evaluation ${id} was cancelled. Verdicts that were stored before are kept.`,
        });
      default: {
        const status = job.status === 'queued' ? 'queued' : 'running';
        const advice = 'Repeat the request later: stored verdicts are reused.';
        throw appError('eval_timeout', {
          detail: `The evaluation ${id} is still ${status}. ${advice}${lastError}`,
        });
      }
    }
  }

  async function evaluateVersion(
    actor: RequestActor,
    of: DraftVersionIds & { rubric?: JudgeRubric | undefined; judgesPrompt: boolean; cases: readonly TestCaseText[] },
    options: EvaluationOptions,
  ): Promise<EvaluationRunWithResults> {
    const { draftId, versionId, rubric, judgesPrompt, cases } = of;
    return evaluated(
      await run(actor, options, async (trx, { defaultModel, ...judging }) => {
        const { version } = await drafts.lockOwnVersion(trx, actor, draftId, versionId);
        const hasParent = version.parentVersionId !== null;
        return {
          kind: 'evaluate',
          ...judging,
          generationModel: version.chatModel ?? defaultModel,
          subject: { kind: 'version', draftId, versionId },
          rubric: selectJudgeRubric({ hasParent, requested: rubric }),
          judgesPrompt,
          cases: [...cases],
        };
      }),
    );
  }

  return {
    evaluateVersion,

    /** Deletes a batch of old evaluations without a draft. `next` is null after the last batch. */
    async deleteOldAdhocRuns(): Promise<{ deleted: number; next: true | null }> {
      const deleted = await runs.deleteAdhocOlderThan(ADHOC_RETENTION_DAYS, DELETION_BATCH_SIZE);
      return { deleted, next: deleted === DELETION_BATCH_SIZE || null };
    },

    async evaluateCase(
      actor: RequestActor,
      { caseText, ...of }: DraftVersionIds & { rubric?: JudgeRubric | undefined; caseText: TestCaseText },
      options: EvaluationOptions,
    ): Promise<TestCaseResult> {
      const { results, run } = await evaluateVersion(actor, { ...of, judgesPrompt: false, cases: [caseText] }, options);
      const [result] = results.cases;
      if (result === undefined) throw appError('eval_incomplete', { detail: run.id });
      return result;
    },

    async evaluatePrompt(
      actor: RequestActor,
      { rubric, ...text }: AgentPromptText & { rubric?: JudgeRubric | undefined },
      options: EvaluationOptions,
    ): Promise<EvaluationRunWithResults> {
      return evaluated(
        await run(actor, options, async (_trx, { defaultModel, ...judging }) => ({
          kind: 'evaluate',
          ...judging,
          generationModel: defaultModel,
          subject: { kind: 'prompt', userId: actor.userId, ...text },
          rubric: selectJudgeRubric({ hasParent: false, requested: rubric }),
          judgesPrompt: true,
          cases: [],
        })),
      );
    },

    /**
     * Compares a version with a baseline, by default its parent, over the given cases and golden cases of the version.
     * Throws `no_baseline` if it has no parent, and the errors of `selectGoldenCases`.
     */
    async compare(
      actor: RequestActor,
      of: DraftVersionIds &
        GoldenCaseSelection & { baselineVersionId?: string | undefined; cases: readonly TestCaseText[] },
      options: EvaluationOptions,
    ): Promise<VersionComparison> {
      const { draftId, versionId, cases } = of;
      const found = await run(actor, options, async (trx, { defaultModel, ...judging }) => {
        const { version } = await drafts.lockOwnVersion(trx, actor, draftId, versionId);
        const baselineVersionId = of.baselineVersionId ?? version.parentVersionId;
        if (baselineVersionId === null) {
          throw appError('no_baseline', {
            detail: 'The first version of a draft has no parent to compare with. Send a baseline_version_id.',
          });
        }
        const { version: baseline } = await drafts.lockOwnVersion(trx, actor, draftId, baselineVersionId);
        return {
          kind: 'compare',
          ...judging,
          generationModel: version.chatModel ?? defaultModel,
          baselineGenerationModel: baseline.chatModel ?? defaultModel,
          subject: { kind: 'version', draftId, versionId },
          baselineVersionId,
          cases: [...cases, ...selectGoldenCases(version.goldenCases, of, cases.length)],
        };
      });
      const { specification, results } = found;
      if (results?.kind !== 'compare' || specification.kind !== 'compare') {
        throw appError('eval_incomplete', { detail: found.id });
      }
      return { specification, results };
    },
  };
}

/** The number of the caller's documents and the latest change of one show additions, changes and deletions. */
export async function documentsOfReplies(
  documents: Pick<DocumentsService, 'listRecent'>,
  actor: Actor,
): Promise<DocumentsOfReplies> {
  const { items, total } = await documents.listRecent(actor, { limit: 1, mine: false });
  return { userId: actor.userId, state: `${total}/${items[0]?.updatedAt.toISOString() ?? ''}` };
}

function evaluated(run: EvaluationRun): EvaluationRunWithResults {
  if (run.results?.kind !== 'evaluate') throw appError('eval_incomplete', { detail: run.id });
  return { run, results: run.results };
}

/**
 * Finds or creates the evaluation run of a specification. Call it in a transaction that holds the organization's lock.
 * Returns a complete run as it is, joins an open one, and starts another attempt of a failed one. Only a new run counts
 * against the daily case limit. After the commit the caller dispatches the job of an open run. Throws
 * `evaluation_case_limit_reached`.
 */
export async function findOrStartEvaluationRun(
  { jobs, logger }: { jobs: Pick<JobsService, 'enqueue' | 'isOpen'>; logger: Pick<Logger, 'info'> },
  trx: Knex,
  actor: RequestActor,
  places: RemainingTierQuota,
  specification: EvaluationSpecification,
): Promise<{ run: EvaluationRun; state: 'complete' | 'open' }> {
  const runs = createEvaluationsRepository(trx);
  const { orgId, userId } = actor;
  const id = runIdOf(orgId, specification);
  const existing = await runs.findRun({ orgId, runId: id });
  if (existing !== undefined && isCompleteEvaluationRun(existing)) return { run: existing, state: 'complete' };
  const run = existing ?? (await insert());
  if (await jobs.isOpen(trx, id)) return { run, state: 'open' };
  await jobs.enqueue(trx, {
    id,
    kind: specification.kind,
    orgId,
    createdBy: userId,
    acl: [`user:${userId}`],
    start: {
      workflow: specification.kind === 'compare' ? 'compareVersions' : 'evaluateVersion',
      input: { orgId, runId: id },
      summary: summaryOf(run),
    },
    requestId: actor.requestId,
  });
  const { evaluatorModel, cases } = specification;
  const maxCalls = run.estimatedCalls;
  logger.info(
    { requestId: actor.requestId, jobId: id, evaluatorModel, cases: cases.length, calls: maxCalls },
    'evaluation queued',
  );
  return { run, state: 'open' };

  async function insert(): Promise<EvaluationRun> {
    const countedCases = Math.max(1, specification.cases.length);
    places.take('evaluationCasesPerDay', await runs.countCasesOfToday(orgId), countedCases);
    await runs.addCasesOfToday(orgId, countedCases);
    return runs.insertRun({
      id,
      orgId,
      ...subjectOf(specification),
      specification,
      estimatedCalls: callsOf(specification),
      acl: [`user:${userId}`],
      createdBy: userId,
    });
  }
}

function runIdOf(orgId: string, specification: EvaluationSpecification): string {
  const request = canonicalJson([orgId, specification]);
  const hash = createHash('sha256').update(request).digest('hex').slice(0, 40);
  return specification.kind === 'compare' ? versionComparisonWorkflowId(hash) : evaluationWorkflowId(hash);
}

function callsOf(specification: EvaluationSpecification): number {
  const cases = specification.cases.map(({ expected }) => hasReferenceAnswer(expected));
  if (specification.kind === 'compare') return maxModelCallsOfComparison(cases);
  return maxModelCallsOfEvaluation(specification.rubric, cases, { withPrompt: specification.judgesPrompt });
}

function subjectOf(specification: EvaluationSpecification) {
  const { subject } = specification;
  if (subject.kind === 'prompt') return { draftId: null, versionId: null, baselineVersionId: null };
  const baselineVersionId = specification.kind === 'compare' ? specification.baselineVersionId : null;
  return { draftId: subject.draftId, versionId: subject.versionId, baselineVersionId };
}

function summaryOf({ specification, estimatedCalls }: Pick<EvaluationRun, 'specification' | 'estimatedCalls'>): string {
  const { subject, cases, evaluatorModel, documents } = specification;
  const judged = subject.kind === 'version' ? `version ${subject.versionId}` : 'a prompt without a draft';
  const action =
    specification.kind === 'compare'
      ? `Compare ${judged} with ${specification.baselineVersionId}`
      : `Evaluate ${judged}`;
  const rubric = specification.kind === 'compare' ? 'in both orders' : `by the ${specification.rubric} rubric`;
  const replies = documents === undefined ? '' : ' with documents';
  return `${action}: ${cases.length} cases${replies}, ${rubric}, judged by ${evaluatorModel}, ${estimatedCalls} calls at most`;
}
