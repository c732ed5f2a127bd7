import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { comparisonWorkflowId, evaluationWorkflowId } from '#src/contracts/workflow-ids.ts';
import { canonicalJson } from '#src/domain/access/idempotency.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { isReference } from '#src/domain/judging/axes.ts';
import type { EvaluationSpecification } from '#src/domain/judging/judgement.ts';
import { callsOfComparison, callsOfEvaluation } from '#src/domain/judging/units.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { Places } from '#src/modules/organization/tier-limits.service.ts';
import { type EvaluationRun, isComplete } from './evaluations.model.ts';
import { createEvaluationsRepository } from './evaluations.repository.ts';

/** A run, and whether there is work to be done: then its job is to be dispatched after the commit. */
export type OpenedRun = { run: EvaluationRun; state: 'complete' | 'open' };

export type OpenRun = (
  trx: Knex,
  actor: RequestActor,
  places: Places,
  specification: EvaluationSpecification,
) => Promise<OpenedRun>;

/**
 * Finds the run of a specification or makes it, in the transaction of a request that holds the organization. One that
 * is complete stays as it is, one that is under way is joined, one that has failed goes on as another attempt. Cases
 * count against the day on which they are asked for first. Throws `evaluation_case_limit_reached`.
 */
export function createEvaluationOpener(deps: {
  jobs: Pick<JobsService, 'enqueue' | 'isOpen'>;
  logger: Pick<Logger, 'info'>;
}): OpenRun {
  const { jobs, logger } = deps;

  return async (trx, actor, places, specification) => {
    const runs = createEvaluationsRepository(trx);
    const { orgId, userId } = actor;
    const id = idOf(orgId, specification);
    const known = await runs.findRun(orgId, id);
    if (known !== undefined && isComplete(known)) return { run: known, state: 'complete' };
    const run = known ?? (await insert());
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
    const calls = run.estimatedCalls;
    logger.info(
      { requestId: actor.requestId, jobId: id, evaluatorModel, cases: cases.length, calls },
      'an evaluation begins, with so many calls of models at most',
    );
    return { run, state: 'open' };

    async function insert(): Promise<EvaluationRun> {
      // What is judged without cases costs as much as one.
      const coming = Math.max(1, specification.cases.length);
      places.take('evaluationCasesPerDay', await runs.countCasesOfToday(orgId), coming);
      await runs.addCasesOfToday(orgId, coming);
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
  };
}

/** Equal for equal wishes of an organization. */
function idOf(orgId: string, specification: EvaluationSpecification): string {
  const wishes = canonicalJson([orgId, specification]);
  const hash = createHash('sha256').update(wishes).digest('hex').slice(0, 40);
  return specification.kind === 'compare' ? comparisonWorkflowId(hash) : evaluationWorkflowId(hash);
}

function callsOf(specification: EvaluationSpecification): number {
  const cases = specification.cases.map(({ expected }) => isReference(expected));
  if (specification.kind === 'compare') return callsOfComparison(cases);
  return callsOfEvaluation(specification.rubric, cases, { withPrompt: specification.judgesPrompt });
}

function subjectOf(specification: EvaluationSpecification) {
  const { subject } = specification;
  if (subject.kind === 'prompt') return { draftId: null, versionId: null, baselineVersionId: null };
  const baselineVersionId = specification.kind === 'compare' ? specification.baselineVersionId : null;
  return { draftId: subject.draftId, versionId: subject.versionId, baselineVersionId };
}

function summaryOf({ specification, estimatedCalls }: Pick<EvaluationRun, 'specification' | 'estimatedCalls'>): string {
  const { subject, cases, evaluatorModel } = specification;
  const of = subject.kind === 'version' ? `version ${subject.versionId}` : 'a prompt without a draft';
  const how =
    specification.kind === 'compare' ? `Compare ${of} with ${specification.baselineVersionId}` : `Evaluate ${of}`;
  const rubric = specification.kind === 'compare' ? 'in both orders' : `by the ${specification.rubric} rubric`;
  return `${how}: ${cases.length} cases, ${rubric}, judged by ${evaluatorModel}, ${estimatedCalls} calls at most`;
}
