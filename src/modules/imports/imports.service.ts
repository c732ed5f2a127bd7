import type { Knex } from 'knex';
import type { ImportRun } from '#src/contracts/connectors.ts';
import { subjectInSummary } from '#src/contracts/jobs.ts';
import { importWorkflowId, ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { RemoteFileQuery } from '#src/ports/connectors.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';
import type { ImportFileRow, ImportPlace, ImportResult, ImportRunRow } from './imports.model.ts';

/** Maximum number of results in one response; the counts of the import's job include all files. */
const MAX_RESULTS = 1_000;

type ImportRequest = {
  /**
   * Id of the import run, derived from the request, so that a repeated request returns the results of the same run.
   */
  runId: string;
  connectionId: string;
  files: RemoteFileQuery[];
  targetFolderId: string | undefined;
};

export type ImportsService = ReturnType<typeof createImportsService>;

export function createImportsService(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'requireTarget'>;
  jobs: Pick<JobsService, 'enqueue' | 'dispatch'>;
  untilOver: (jobId: string, seconds: number, disconnected: AbortSignal) => Promise<unknown>;
}) {
  const { db, folders, jobs, untilOver } = deps;

  async function enqueueImport(actor: RequestActor, request: ImportRequest): Promise<void> {
    const { orgId, userId, requestId } = actor;
    const { runId, connectionId, files, targetFolderId } = request;
    const of = { orgId, connectionId, runId };
    const jobId = importWorkflowId(runId);
    await db.transaction(async (trx) => {
      const runs = createImportRunsRepository(trx);
      const connection = await runs.lockConnection(of);
      if (connection?.userId !== userId) throw appError('connection_not_found');
      if ((await runs.findRun(of)) !== undefined) return;
      if (connection.status === 'needs_reauth') throw appError('needs_reauth');
      await folders.requireTarget(trx, actor, targetFolderId);
      const options = { targetFolderId: targetFolderId ?? null, folder: '', deletesMissing: false };
      await runs.insertRun({ id: runId, orgId, connectionId, kind: 'import', jobId, ...options });
      await runs.addRequestedFiles(of, files);
      await jobs.enqueue(trx, {
        id: jobId,
        kind: 'import',
        orgId,
        createdBy: userId,
        acl: [`user:${userId}`],
        connectionId,
        start: { workflow: 'importFromConnector', input: of, summary: `Import from ${subjectInSummary}` },
        requestId,
      });
    });
    await jobs.dispatch(jobId);
  }

  async function results(of: ImportRun): Promise<ImportResult[]> {
    const runs = createImportRunsRepository(db);
    const run = await runs.findRun(of);
    if (run === undefined) throw appError('connection_not_found');
    const [requested, found] = await Promise.all([runs.listRequested(of), runs.listFiles(of, MAX_RESULTS)]);
    const failed = requested.filter(({ errorCode }) => errorCode !== null);
    const itemsWithResult = new Set([...found, ...failed].map(({ item }) => item));
    const others = requested.filter(({ item }) => !itemsWithResult.has(item));
    const byRemoteId = new Map(found.map((file) => [file.remoteId, file]));
    return [
      ...failed.map((place) => ({ item: place.item, result: resultOfPlace(run, place) })),
      ...found.map((file) => ({ item: file.item, result: resultOfFile(run, file) })),
      ...others.flatMap((place) => {
        const file = byRemoteId.get(place.remoteId ?? '');
        if (file !== undefined) return [{ item: place.item, result: resultOfFile(run, file) }];
        return run.isListed ? [] : [{ item: place.item, result: resultOfPlace(run, place) }];
      }),
    ]
      .sort((one, other) => one.item - other.item)
      .map(({ result }) => result);
  }

  return {
    /** Starts an import and waits `wait.seconds` for its end. A client that disconnects ends only the wait. */
    async start(
      actor: RequestActor,
      request: ImportRequest,
      wait: { seconds: number; disconnected: AbortSignal },
    ): Promise<ImportResult[]> {
      const { runId, connectionId } = request;
      await enqueueImport(actor, request);
      if (wait.seconds > 0) await untilOver(importWorkflowId(runId), wait.seconds, wait.disconnected);
      return results({ orgId: actor.orgId, connectionId, runId });
    },
  };
}

function resultOfPlace(run: ImportRunRow, place: ImportPlace): ImportResult {
  const error = errorOf(place) ?? errorOfEndedRun(run);
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
  const error = errorOf(file) ?? (status === 'pending' ? errorOfEndedRun(run) : null);
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

function errorOfEndedRun(run: ImportRunRow): ImportResult['error'] {
  if (run.status === 'cancelled') return { code: 'cancelled', message: 'The import was cancelled.' };
  return run.status === 'failed' ? errorOf(run) : null;
}
