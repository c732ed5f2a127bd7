import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type {
  AwaitReembeddingsInput,
  AwaitReembeddingsResult,
  OpenReembeddingsInput,
  OpenReembeddingsResult,
  RecordReembeddingEndInput,
  RecordReembeddingFailureInput,
  RecordReembeddingInput,
  RecordReembeddingPauseInput,
  ReembeddingCounts,
} from '#src/contracts/ingestion.ts';
import { reembeddingWorkflowId } from '#src/contracts/workflow-ids.ts';
import { appError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { GenerationsService, IngestionPlan } from '#src/modules/ingestion/generations.service.ts';
import type { EndedJob, Job, JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { createReembeddingRepository } from './reembedding.repository.ts';

const POLL_INTERVAL_MS = 500;
/** One call of `awaitSome` returns when this many ingestions have ended; after `GATHER_MS`, one is enough. */
const MIN_ENDED = 5;
const GATHER_MS = 5_000;
/**
 * Longest time that one activity waits for ingestions. Before the next one, the workflow can handle an operator's
 * request to resume.
 */
const MAX_WAIT_MS = 30_000;

type Target = { orgId: string; model: string };

export type ReembeddingService = ReturnType<typeof createReembeddingService>;

/** Changes the embedding model of all documents of an organization; operators start it. */
export function createReembeddingService(deps: {
  db: Knex;
  documents: Pick<DocumentsService, 'setEmbeddingModel'>;
  generations: Pick<GenerationsService, 'openIfNeeded' | 'carryOut'>;
  jobs: Pick<
    JobsService,
    'enqueue' | 'dispatch' | 'advance' | 'recordRetriedError' | 'openRunsOf' | 'find' | 'isOpen' | 'listEnded'
  >;
  models: Pick<ModelsService, 'refusalOf'>;
  orchestrator: Pick<Orchestrator, 'setPaused'>;
}) {
  const { db, documents, generations, jobs, models, orchestrator } = deps;
  const repository = createReembeddingRepository(db);
  const jobIdOf = ({ orgId }: { orgId: string }) => reembeddingWorkflowId(orgId);

  async function requireOffered(model: string): Promise<void> {
    const refusal = await models.refusalOf('embedding', model);
    if (refusal !== null) throw refusal;
  }

  async function openIngestion(target: Target, documentId: string): Promise<IngestionPlan | null> {
    return db.transaction(async (trx) => {
      const document = await createReembeddingRepository(trx).lockOutdated(target, documentId);
      if (document === undefined) return null;
      await documents.setEmbeddingModel(trx, document.id, target.model);
      // Only sets the model of a document that was never ingested: its owner decides when to ingest it.
      const isUnderWay = (await jobs.openRunsOf(trx, { documentId, kind: 'ingest' })).length > 0;
      if (document.activeGeneration === null && !isUnderWay) return null;
      const actor = {
        ...{ userId: document.createdBy, orgId: target.orgId, requestId: jobIdOf(target) },
        ...{ isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [], contributesToOrganization: false },
      };
      const ragConfig = { ...document.ragConfig, embedding: { model: target.model } };
      return generations.openIfNeeded(trx, actor, { ...document, ragConfig }, { isBulk: true });
    });
  }

  async function recordProgress(of: { orgId: string }, { done, failed, total }: ReembeddingCounts): Promise<void> {
    await jobs.advance(jobIdOf(of), { progress: { done: done + failed, total, unit: 'documents' } });
    if (failed === 0) return;
    await jobs.recordRetriedError(jobIdOf(of), {
      code: 'reembedding_incomplete',
      message: `${failed} documents could not be embedded; searches still use their old vectors.`,
    });
  }

  async function countOfAnotherModel({ orgId }: { orgId: string }): Promise<number> {
    const start = (await jobs.find(jobIdOf({ orgId })))?.start;
    if (start?.workflow !== 'reembedOrganization') return 0;
    return repository.countOfAnotherModel({ orgId, model: start.input.model });
  }

  return {
    async start({ orgId, model }: Target): Promise<string> {
      await requireOffered(model);
      if (!(await repository.organizationExists(orgId))) {
        throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      }
      const id = jobIdOf({ orgId });
      await db.transaction(async (trx) => {
        if (await jobs.isOpen(trx, id)) throw appError('job_open', { detail: `The job ${id} is still running.` });
        const admins = await createReembeddingRepository(trx).listOrgAdminIds(orgId);
        const [createdBy] = admins;
        if (createdBy === undefined) throw appError('not_found', { detail: 'The organization has no admin.' });
        await jobs.enqueue(trx, {
          id,
          kind: 'reembed',
          orgId,
          createdBy,
          acl: admins.map((userId) => `user:${userId}`),
          start: {
            workflow: 'reembedOrganization',
            input: { orgId, model },
            summary: `Embed all documents by ${model}`,
            bulk: true,
          },
          requestId: null,
        });
      });
      await jobs.dispatch(id);
      return id;
    },

    findJob(of: { orgId: string }): Promise<Job | undefined> {
      return jobs.find(jobIdOf(of));
    },

    /**
     * Pauses or resumes a re-embedding; running ingestions continue. Throws `service_unavailable` without Temporal or
     * workers.
     */
    setPaused(of: { orgId: string }, isPaused: boolean): Promise<'done' | 'unchanged' | 'gone'> {
      return orchestrator.setPaused(jobIdOf(of), isPaused);
    },

    async count(target: Target): Promise<{ total: number }> {
      await requireOffered(target.model);
      await jobs.advance(jobIdOf(target), { status: 'running', stage: 'reembed' });
      const total = await repository.countOutdated(target);
      await recordProgress(target, { done: 0, failed: 0, total });
      return { total };
    },

    /** Starts the ingestion of the next documents. Idempotent: a repeated call finds the ingestions that it started. */
    async openSome(
      { after, limit, ...target }: OpenReembeddingsInput,
      signal: AbortSignal,
    ): Promise<OpenReembeddingsResult> {
      const ids = await repository.listOutdatedIds(target, { after, limit });
      const jobIds: string[] = [];
      for (const id of ids) {
        signal.throwIfAborted();
        const plan = await openIngestion(target, id);
        if (plan === null) continue;
        jobIds.push(plan.jobId);
        await generations.carryOut(plan);
      }
      return { jobIds, settled: ids.length - jobIds.length, after: ids.length < limit ? null : (ids.at(-1) ?? null) };
    },

    async awaitSome(
      { jobIds, counts, ...of }: AwaitReembeddingsInput,
      signal: AbortSignal,
    ): Promise<AwaitReembeddingsResult> {
      const beganMs = performance.now();
      for (;;) {
        const ended = await jobs.listEnded(jobIds);
        const waitedMs = performance.now() - beganMs;
        const isEnough = ended.length >= Math.min(MIN_ENDED, jobIds.length);
        if (isEnough || (ended.length > 0 && waitedMs > GATHER_MS) || waitedMs > MAX_WAIT_MS) {
          const failed = ended.filter(hasFailed).map((job) => job.id);
          const done = ended.filter((job) => !hasFailed(job)).map((job) => job.id);
          const { total } = counts;
          await recordProgress(of, { total, done: counts.done + done.length, failed: counts.failed + failed.length });
          return { done, failed };
        }
        await delay(POLL_INTERVAL_MS, undefined, { signal });
      }
    },

    async recordPause({ isPaused, ...of }: RecordReembeddingPauseInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { stage: isPaused ? 'paused' : 'reembed' });
    },

    async recordParked({ error, ...of }: RecordReembeddingFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'parked', error });
    },

    async recordResumed(of: { orgId: string }): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'running' });
    },

    /** Records success. Throws `reembedding_incomplete` if documents were set to another model during the run. */
    async recordSuccess({ attempt, startId, counts, ...of }: RecordReembeddingInput): Promise<void> {
      await recordProgress(of, counts);
      const others = await countOfAnotherModel(of);
      if (others > 0) {
        const detail = `${others} documents were set to another model, or added with one, during the run.`;
        throw appError('reembedding_incomplete', { detail });
      }
      await jobs.advance(jobIdOf(of), { status: 'succeeded' }, { attempt, startId });
    },

    async recordFailure({ error, attempt, startId, ...of }: RecordReembeddingFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'failed', error }, { attempt, startId });
    },

    async recordCancellation({ attempt, startId, ...of }: RecordReembeddingEndInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'cancelled' }, { attempt, startId });
    },
  };
}

/** Returns whether an ingestion failed. A superseded ingestion, or one of a deleted document, counts as done. */
function hasFailed({ status, errorCode }: EndedJob): boolean {
  if (status === 'succeeded') return false;
  return errorCode !== 'superseded' && errorCode !== 'document_not_found';
}
