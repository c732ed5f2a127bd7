import type { Knex } from 'knex';
import { importWorkflowId, ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { RemoteFileQuery } from '#src/ports/connectors.ts';
import { createImportFilesRepository } from './import-files.repository.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';
import type { ImportFileRow, ImportPlace, ImportResult, ImportRunRow } from './imports.model.ts';

/** Of an answer: what becomes of all files of a larger folder its job tells. */
const RESULTS_SHOWN = 1_000;

export type ImportRequest = {
  /** A request that is repeated has it again, and finds what it has begun. */
  runId: string;
  connectionId: string;
  wishes: RemoteFileQuery[];
  /** The caller's personal root when undefined. */
  targetFolderId: string | undefined;
};

export type ImportsService = ReturnType<typeof createImportsService>;

/** Imports that somebody asks for. */
export function createImportsService(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'requireTarget'>;
  jobs: Pick<JobsService, 'enqueue' | 'dispatch'>;
  /** Waits for a job, up to its time. */
  untilOver: (jobId: string, seconds: number, left: AbortSignal) => Promise<unknown>;
}) {
  const { db, folders, jobs, untilOver } = deps;
  const files = createImportFilesRepository(db);

  async function open(actor: RequestActor, request: ImportRequest): Promise<void> {
    const { orgId, userId, requestId } = actor;
    const { runId, connectionId, wishes, targetFolderId } = request;
    const of = { orgId, connectionId, runId };
    const jobId = importWorkflowId(runId);
    await db.transaction(async (trx) => {
      const runs = createImportRunsRepository(trx);
      const connection = await runs.lockConnection(of);
      if (connection?.userId !== userId) throw appError('connection_not_found');
      if ((await runs.find(of)) !== undefined) return;
      // Nobody could carry it out; one that is under way when the consent ends waits for the next one.
      if (connection.status === 'needs_reauth') throw appError('needs_reauth');
      await folders.requireTarget(trx, actor, targetFolderId);
      const told = { jobId, targetFolderId: targetFolderId ?? null, folder: '', deletesMissing: false };
      await runs.insert({ id: runId, orgId, connectionId, kind: 'import', ...told });
      await createImportFilesRepository(trx).addWishes(of, wishes);
      await jobs.enqueue(trx, {
        id: jobId,
        kind: 'import',
        orgId,
        createdBy: userId,
        acl: [`user:${userId}`],
        connectionId,
        start: { workflow: 'importFromConnector', input: of, summary: `Import from connection ${connectionId}` },
        requestId,
      });
    });
    await jobs.dispatch(jobId);
  }

  async function results(of: { orgId: string; connectionId: string; runId: string }): Promise<ImportResult[]> {
    const run = await createImportRunsRepository(db).find(of);
    if (run === undefined) throw appError('connection_not_found');
    const [wishes, found] = await Promise.all([files.listWishes(of), files.list(of, RESULTS_SHOWN)]);
    const failed = wishes.filter(({ errorCode }) => errorCode !== null);
    const heardOf = new Set([...found, ...failed].map(({ item }) => item));
    const unheardOf = wishes.filter(({ item }) => !heardOf.has(item));
    // What several items name is found once.
    const byId = new Map(found.map((file) => [file.remoteId, file]));
    const told = unheardOf.map((place) => ({ place, file: byId.get(place.remoteId ?? '') }));
    return [
      ...failed.map((place) => ({ item: place.item, result: resultOfWish(run, place) })),
      ...told.flatMap(({ place, file }) => {
        if (file !== undefined) return [{ item: place.item, result: resultOfFile(run, file) }];
        return run.isListed ? [] : [{ item: place.item, result: resultOfWish(run, place) }];
      }),
      ...found.map((file) => ({ item: file.item, result: resultOfFile(run, file) })),
    ]
      .sort((one, other) => one.item - other.item)
      .map(({ result }) => result);
  }

  return {
    /**
     * What has become of each file when all is done, or the time is up. Throws `connection_not_found`, `folder_not_found`,
     * `forbidden`, `needs_reauth`.
     * @param wait.left aborts when nobody listens any more; the import goes on all the same
     */
    async start(
      actor: RequestActor,
      request: ImportRequest,
      wait: { seconds: number; left: AbortSignal },
    ): Promise<ImportResult[]> {
      const { runId, connectionId } = request;
      await open(actor, request);
      if (wait.seconds > 0) await untilOver(importWorkflowId(runId), wait.seconds, wait.left);
      return results({ orgId: actor.orgId, connectionId, runId });
    },
  };
}

function resultOfWish(run: ImportRunRow, place: ImportPlace): ImportResult {
  const error = errorOf(place) ?? endOf(run);
  return {
    fileId: place.remoteId,
    documentId: null,
    jobId: run.jobId,
    status: error === null ? 'queued' : 'failed',
    error,
  };
}

function resultOfFile(run: ImportRunRow, file: ImportFileRow & { generation: number | null }): ImportResult {
  const { remoteId, documentId, status, generation } = file;
  const isIngested = documentId !== null && generation !== null && generation > 0;
  const error = errorOf(file) ?? (status === 'pending' ? endOf(run) : null);
  const isUnchanged = status === 'unchanged';
  return {
    fileId: remoteId,
    documentId,
    jobId: isIngested ? ingestWorkflowId(documentId, generation) : run.jobId,
    status: error === null ? (isUnchanged ? 'unchanged' : 'queued') : 'failed',
    error,
  };
}

function errorOf({ errorCode, errorMessage }: Pick<ImportPlace, 'errorCode' | 'errorMessage'>): ImportResult['error'] {
  return errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' };
}

/** Why nothing becomes any more of what a run has not done. */
function endOf(run: ImportRunRow): ImportResult['error'] {
  if (run.status === 'cancelled') return { code: 'cancelled', message: 'The import was cancelled.' };
  return run.status === 'failed' ? errorOf(run) : null;
}
