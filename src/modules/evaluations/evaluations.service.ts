import type { Knex } from 'knex';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import type {
  CaseText,
  ComparedSpecification,
  EvaluationSpecification,
  PromptText,
} from '#src/domain/judging/judgement.ts';
import type { ComparisonResults, EvaluationResults } from '#src/domain/judging/outcome.ts';
import type { CaseResult } from '#src/domain/judging/results.ts';
import { type Rubric, rubricFor, rubricVersion } from '#src/domain/judging/rubric.ts';
import { appError } from '#src/errors.ts';
import type { DraftVersionsService } from '#src/modules/drafts/draft-versions.service.ts';
import type { JobWatch } from '#src/modules/jobs/job-watch.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { OpenRun } from './evaluation-opener.ts';
import type { EvaluationRun } from './evaluations.model.ts';
import { createEvaluationsRepository } from './evaluations.repository.ts';

/** As long as somebody may want to look at it again, or ask for more of it. */
const ADHOC_DAYS = 30;
/** Each with its units, and what nobody else has asked for. */
const RUNS_AT_ONCE = 100;

/** How a client wants to be judged, and how long it wants to wait for that. */
export type JudgingWishes = {
  evaluatorModel?: string | undefined;
  /** Answers to cases are drawn anew. */
  isFresh: boolean;
  waitSeconds: number;
  /** Aborts when nobody waits any more. */
  left: AbortSignal;
};

export type OfVersion = { draftId: string; versionId: string };

/** What a run came to, and by whom. */
export type Evaluated = { run: EvaluationRun; results: EvaluationResults };
export type Compared = { specification: ComparedSpecification; results: ComparisonResults };

export type EvaluationsService = ReturnType<typeof createEvaluationsService>;

/**
 * Evaluations that somebody waits for. All throw `unknown_model`, `evaluation_case_limit_reached`, `eval_timeout` when
 * the wait ends first, and `eval_incomplete` when something could not be judged; those of a version `draft_not_found`,
 * `version_not_found` and `forbidden`.
 */
export function createEvaluationsService(deps: {
  db: Knex;
  versions: Pick<DraftVersionsService, 'lockOwnVersion'>;
  limits: TierLimitsService;
  models: Pick<ModelsService, 'evaluator' | 'chatModels'>;
  jobs: Pick<JobsService, 'dispatch'>;
  openRun: OpenRun;
  waiter: Pick<JobWatch, 'untilOver'>;
}) {
  const { db, versions, limits, models, jobs, openRun, waiter } = deps;
  const runs = createEvaluationsRepository(db);

  async function evaluatorFor({ evaluatorModel: id }: Pick<JudgingWishes, 'evaluatorModel'>): Promise<string> {
    return models.evaluator(id === undefined ? undefined : { id, path: 'evaluator_model' });
  }

  async function run(
    actor: RequestActor,
    wishes: JudgingWishes,
    specify: (
      trx: Knex,
      judging: Pick<EvaluationSpecification, 'evaluatorModel' | 'rubricVersion' | 'draw'> & { defaultModel: string },
    ) => Promise<EvaluationSpecification>,
  ): Promise<EvaluationRun> {
    const evaluatorModel = await evaluatorFor(wishes);
    const defaultModel = (await models.chatModels()).default;
    const draw = wishes.isFresh ? actor.requestId : null;
    const opened = await limits.transaction(actor.orgId, async (trx) => {
      const places = await limits.lock(trx, actor.orgId);
      const wished = await specify(trx, { evaluatorModel, defaultModel, rubricVersion, draw });
      // Without answers nothing is drawn, and it is the same run.
      const specification = wished.cases.length === 0 ? { ...wished, draw: null } : wished;
      return openRun(trx, actor, places, specification);
    });
    if (opened.state === 'complete') return opened.run;
    await jobs.dispatch(opened.run.id);
    return ended(opened.run, wishes);
  }

  async function ended({ orgId, id }: EvaluationRun, { waitSeconds, left }: JudgingWishes): Promise<EvaluationRun> {
    const job = await waiter.untilOver(id, waitSeconds, left);
    const last = job.errorMessage === null ? '' : ` ${job.errorMessage}`;
    switch (job.status) {
      case 'succeeded': {
        const found = await runs.findRun(orgId, id);
        if (found === undefined) throw appError('eval_incomplete', { detail: `${id} was deleted meanwhile.` });
        return found;
      }
      case 'failed':
        if (job.errorCode === 'version_not_found') throw appError('version_not_found');
        throw appError('eval_incomplete', { detail: `${id}:${last}` });
      case 'cancelled':
        throw appError('eval_incomplete', { detail: `${id} was cancelled. What was judged is kept.` });
      default: {
        const standing = job.status === 'queued' ? 'has yet to begin' : 'goes on';
        const detail = `${id} ${standing}; see GET /jobs/${id}. Ask again: what is judged is not judged twice.${last}`;
        throw appError('eval_timeout', { detail });
      }
    }
  }

  async function evaluateVersion(
    actor: RequestActor,
    of: OfVersion & { rubric?: Rubric | undefined; judgesPrompt: boolean; cases: readonly CaseText[] },
    wishes: JudgingWishes,
  ): Promise<Evaluated> {
    const { draftId, versionId, rubric, judgesPrompt, cases } = of;
    return evaluated(
      await run(actor, wishes, async (trx, { defaultModel, ...judging }) => {
        const { version } = await versions.lockOwnVersion(trx, actor, draftId, versionId);
        const hasParent = version.parentVersionId !== null;
        return {
          kind: 'evaluate',
          ...judging,
          generationModel: version.chatModel ?? defaultModel,
          subject: { kind: 'version', draftId, versionId },
          rubric: rubricFor({ hasParent, requested: rubric }),
          judgesPrompt,
          cases: [...cases],
        };
      }),
    );
  }

  return {
    evaluateVersion,

    /** A step of the sweeper: forgets what was judged of prompts that nobody has saved. */
    async forgetAdhoc(): Promise<void> {
      while ((await runs.deleteAdhocOlderThan(ADHOC_DAYS, RUNS_AT_ONCE)) === RUNS_AT_ONCE);
    },

    /** What a version answers to one case, without its prompt. */
    async evaluateCase(
      actor: RequestActor,
      { evaluated: each, ...of }: OfVersion & { rubric?: Rubric | undefined; evaluated: CaseText },
      wishes: JudgingWishes,
    ): Promise<CaseResult> {
      const { results, run } = await evaluateVersion(actor, { ...of, judgesPrompt: false, cases: [each] }, wishes);
      const [result] = results.cases;
      if (result === undefined) throw appError('eval_incomplete', { detail: run.id });
      return result;
    },

    /** A prompt that nobody has saved, for the caller alone. */
    async evaluatePrompt(
      actor: RequestActor,
      { rubric, ...text }: PromptText & { rubric?: Rubric | undefined },
      wishes: JudgingWishes,
    ): Promise<Evaluated> {
      return evaluated(
        await run(actor, wishes, async (_trx, { defaultModel, ...judging }) => ({
          kind: 'evaluate',
          ...judging,
          generationModel: defaultModel,
          subject: { kind: 'prompt', userId: actor.userId, ...text },
          rubric: rubricFor({ hasParent: false, requested: rubric }),
          judgesPrompt: true,
          cases: [],
        })),
      );
    },

    /** A version against another of its draft, or against its parent; throws `no_baseline` where there is none. */
    async compare(
      actor: RequestActor,
      of: OfVersion & { baselineVersionId?: string | undefined; cases: readonly CaseText[] },
      wishes: JudgingWishes,
    ): Promise<Compared> {
      const { draftId, versionId, cases } = of;
      const found = await run(actor, wishes, async (trx, { defaultModel, ...judging }) => {
        const { version } = await versions.lockOwnVersion(trx, actor, draftId, versionId);
        const baselineVersionId = of.baselineVersionId ?? version.parentVersionId;
        if (baselineVersionId === null) {
          throw appError('no_baseline', { detail: 'A first version has no parent: name a baseline_version_id.' });
        }
        const { version: baseline } = await versions.lockOwnVersion(trx, actor, draftId, baselineVersionId);
        return {
          kind: 'compare',
          ...judging,
          generationModel: version.chatModel ?? defaultModel,
          baselineGenerationModel: baseline.chatModel ?? defaultModel,
          subject: { kind: 'version', draftId, versionId },
          baselineVersionId,
          cases: [...cases],
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

function evaluated(run: EvaluationRun): Evaluated {
  if (run.results?.kind !== 'evaluate') throw appError('eval_incomplete', { detail: run.id });
  return { run, results: run.results };
}
