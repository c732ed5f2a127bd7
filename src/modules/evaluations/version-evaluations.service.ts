import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import type { GoldenTestCase } from '#src/domain/agents/drafts.ts';
import type { DocumentsOfReplies, EvaluationSpecification } from '#src/domain/judging/judgement.ts';
import { judgeRubricVersion, selectJudgeRubric } from '#src/domain/judging/rubric.ts';
import { appError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { DraftsService } from '#src/modules/drafts/drafts.service.ts';
import type { JobWatchService } from '#src/modules/jobs/job-watch.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import { evalScoresOfEvaluationRun } from './evaluations.model.ts';
import { createEvaluationsRepository } from './evaluations.repository.ts';
import { type DraftVersionIds, documentsOfReplies, findOrStartEvaluationRun } from './evaluations.service.ts';
import { type GoldenCaseSelection, selectGoldenCases } from './golden-cases.ts';
import { buildEvaluationReport } from './report.ts';
import { renderEvaluationReportFile } from './report-formats.ts';
import { type EvaluationReportFile, parseReportFormat } from './report-markup.ts';

type DraftVersion = Awaited<ReturnType<DraftsService['get']>>['versions'][number];

type StartEvaluationInput = DraftVersionIds &
  GoldenCaseSelection & { goldenCases?: GoldenTestCase[] | undefined; withDocuments: boolean };

export type VersionEvaluationsService = ReturnType<typeof createVersionEvaluationsService>;

/** Evaluates draft versions. All methods throw `draft_not_found`, `version_not_found` and `forbidden`. */
export function createVersionEvaluationsService(deps: {
  drafts: Pick<DraftsService, 'get' | 'lockOwnVersion'>;
  documents: Pick<DocumentsService, 'listRecent'>;
  limits: TierLimitsService;
  models: Pick<ModelsService, 'chatModels' | 'evaluator'>;
  jobs: Pick<JobsService, 'dispatch' | 'enqueue' | 'isOpen'>;
  logger: Pick<Logger, 'info'>;
  jobWatch: Pick<JobWatchService, 'untilOver'>;
}) {
  const { drafts, documents, limits, models, jobs, logger, jobWatch } = deps;

  async function readVersion(
    actor: Actor,
    { draftId, versionId }: DraftVersionIds,
  ): Promise<{ version: DraftVersion; parent: DraftVersion | null }> {
    const { versions: all } = await drafts.get(actor, draftId);
    const version = all.find(({ id }) => id === versionId);
    if (version === undefined) throw appError('version_not_found');
    return { version, parent: all.find(({ id }) => id === version.parentVersionId) ?? null };
  }

  /** Opens an evaluation run for a draft version. Returns its job id; null if the version has scores. */
  async function open(
    trx: Knex,
    actor: RequestActor,
    input: StartEvaluationInput,
    judging: { evaluatorModel: string; defaultModel: string; documents: DocumentsOfReplies | undefined },
  ): Promise<string | null> {
    const { draftId, versionId } = input;
    const places = await limits.lock(trx, actor.orgId);
    const { version } = await drafts.lockOwnVersion(trx, actor, draftId, versionId);
    // A version has one open evaluation at a time. This request joins it, even if its options differ.
    if (version.evalRunId !== null && (await jobs.isOpen(trx, version.evalRunId))) return version.evalRunId;

    const repository = createEvaluationsRepository(trx);
    const { goldenCases = version.goldenCases } = input;
    const cases = selectGoldenCases(goldenCases, input);
    if (input.goldenCases !== undefined) await repository.setGoldenCases(version, goldenCases);
    const specification: EvaluationSpecification = {
      kind: 'evaluate',
      evaluatorModel: judging.evaluatorModel,
      rubricVersion: judgeRubricVersion,
      draw: null,
      documents: cases.length === 0 ? undefined : judging.documents,
      generationModel: version.chatModel ?? judging.defaultModel,
      subject: { kind: 'version', draftId, versionId },
      rubric: selectJudgeRubric({ hasParent: version.parentVersionId !== null }),
      judgesPrompt: true,
      cases,
    };
    const { run, state } = await findOrStartEvaluationRun({ jobs, logger }, trx, actor, places, specification);
    const evalRunId = run.id;
    if (state === 'open') {
      await repository.setVersionRun(version, { evalRunId, evalStatus: 'queued' });
      return evalRunId;
    }
    const parent = await repository.findParentScores(actor.orgId, versionId);
    const evalScores = evalScoresOfEvaluationRun(run, parent);
    await repository.setVersionRun(version, { evalRunId, evalStatus: 'completed', ...(evalScores && { evalScores }) });
    return null;
  }

  return {
    /**
     * Evaluates a draft version, with or without golden cases, and waits for the scores. Joins an open evaluation of
     * the version. Returns the version without new scores if the wait ends first. Throws `unknown_golden_case`,
     * `validation_failed` for too many cases, `evaluation_case_limit_reached` and `evaluator_unavailable`.
     */
    async start(
      actor: RequestActor,
      input: StartEvaluationInput,
      wait: { seconds: number; signal: AbortSignal },
    ): Promise<DraftVersion> {
      const judging = {
        evaluatorModel: await models.evaluator(),
        defaultModel: (await models.chatModels()).default,
        documents: input.withDocuments ? await documentsOfReplies(documents, actor) : undefined,
      };
      const jobId = await limits.transaction(actor.orgId, (trx) => open(trx, actor, input, judging));
      if (jobId !== null) {
        await jobs.dispatch(jobId);
        await jobWatch.untilOver(jobId, wait.seconds, wait.signal);
      }
      return (await readVersion(actor, input)).version;
    },

    /**
     * Renders a report with the scores of a draft version and of its parent, for every reader of the draft. Throws
     * `evaluation_not_found` for a version without readable scores, and `unsupported_report_format`.
     */
    async report(actor: Actor, of: DraftVersionIds, requestedFormat: string): Promise<EvaluationReportFile> {
      const format = parseReportFormat(requestedFormat);
      if (format === undefined) throw appError('unsupported_report_format');
      const { version, parent } = await readVersion(actor, of);
      const report = buildEvaluationReport(version, parent);
      if (report === null) throw appError('evaluation_not_found');
      return renderEvaluationReportFile(report, format);
    },
  };
}
