import type {
  DocumentDeletionSliceResult,
  ImportCounts,
  ImportFileInput,
  ImportFileResult,
  ImportRun,
  ImportSliceResult,
  RecordFileFailureInput,
  RecordImportEndInput,
  RecordImportFailureInput,
  UnfinishedImportFiles,
} from '#src/contracts/connectors.ts';
import { importWorkflowId, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { JobAttempt } from '#src/contracts/workflow-runs.ts';
import { createConcurrencyCounter } from '#src/domain/access/limits.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { AppError, appError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { JobsService, JobUpdate } from '#src/modules/jobs/jobs.service.ts';
import { createFileImporter, type FileImporterDeps } from './file-importer.ts';
import { createImportRunsRepository, type MostFrequentImportError } from './import-runs.repository.ts';
import type { ImportConnection, ImportFileRow, ImportRunRow } from './imports.model.ts';
import { createRemoteFileListing } from './remote-listing.ts';
import { createConnectionSchedulesRepository, createConnectorDocumentsRepository } from './sync-state.repository.ts';

const SLICE_MS = 20_000;
const FILES_AT_ONCE = 500;
/** After this many attempts (four minutes) a file's import fails, unless the provider answers no call at all. */
const ATTEMPTS_OF_FILE = 10;
/** Concurrent downloads per organization and process: half of a worker's capacity, as a provider may be slow. */
const DOWNLOADS_AT_ONCE = 16;
const DOWNLOAD_RETRY_SECONDS = 5;
/** A sync that would delete more documents than this, and more than `UNCONFIRMED_SHARE`, needs confirmation. */
const UNCONFIRMED_DELETIONS = 20;
const UNCONFIRMED_SHARE = 0.3;
const RUNS_KEPT_DAYS = 90;

/** Error codes that end the whole import run; other permanent errors fail only one file. */
const runErrors = new Set(['connection_not_found', 'account_disabled', 'invalid_token']);

export type ImportStepsService = ReturnType<typeof createImportStepsService>;

export function createImportStepsService(
  deps: FileImporterDeps & {
    documents: Pick<DocumentsService, 'remove'>;
    jobs: Pick<JobsService, 'advance' | 'advanceWithin'>;
    findActor: (userId: string) => Promise<Actor | null>;
  },
) {
  const { db, documents, jobs, findActor } = deps;
  const listing = createRemoteFileListing(deps);
  const importer = createFileImporter(deps);
  const runs = createImportRunsRepository(db);
  const downloads = createConcurrencyCounter();

  function beginDownload(orgId: string): () => void {
    if (downloads.of(orgId) >= DOWNLOADS_AT_ONCE) {
      const detail = `Your organization has ${DOWNLOADS_AT_ONCE} downloads from providers in progress.`;
      throw appError('rate_limited', { detail, retryAfterSeconds: DOWNLOAD_RETRY_SECONDS });
    }
    return downloads.take(orgId);
  }

  async function requireRun(of: ImportRun): Promise<ImportRunRow> {
    const run = await runs.findRun(of);
    if (run === undefined) throw appError('connection_not_found');
    return run;
  }

  /** Returns the connection's owner, for whom the run imports. Throws `account_disabled` if not active. */
  async function requireOwner(
    of: ImportRun,
    { jobId }: ImportRunRow,
  ): Promise<{ connection: ImportConnection; owner: RequestActor }> {
    const connection = await runs.findConnection(of);
    if (connection === undefined) throw appError('connection_not_found');
    const actor = await findActor(connection.userId);
    if (actor === null) throw appError('account_disabled');
    return { connection, owner: { ...actor, requestId: jobId } };
  }

  async function inSlice(signal: AbortSignal, step: () => Promise<boolean>): Promise<boolean> {
    const endMs = performance.now() + SLICE_MS;
    while (performance.now() < endMs) {
      signal.throwIfAborted();
      if (!(await step())) return false;
    }
    return true;
  }

  async function reportProgress(run: ImportRunRow): Promise<void> {
    const { total, added, updated, unchanged, failed } = run;
    const progress = { done: added + updated + unchanged + failed, total: run.isListed ? total : null, unit: 'files' };
    await jobs.advance(run.jobId, { progress });
  }

  /**
   * Records the end of an import run's job. A run that was deleted with its connection no longer tells its kind, so the
   * job ids of an import and of a sync are tried; only one of these jobs has this `attempt`.
   */
  async function closeJob(of: ImportRun, change: JobUpdate, attempt: JobAttempt): Promise<void> {
    const run = await runs.findRun(of);
    const jobIds = run === undefined ? [importWorkflowId(of.runId), syncWorkflowId(of.connectionId)] : [run.jobId];
    for (const jobId of jobIds) await jobs.advance(jobId, change, attempt);
  }

  async function requireConfirmation(of: ImportRun, run: ImportRunRow): Promise<void> {
    if (run.acceptsDeletions || run.deleted > 0) return;
    const { missing, known } = await createConnectorDocumentsRepository(db).countMissing(run);
    if (missing <= UNCONFIRMED_DELETIONS || missing <= known * UNCONFIRMED_SHARE) return;
    // Files may have reappeared by the time the user confirms the deletion, so the sync lists them again before it
    // deletes.
    await runs.updateRun(of, { isListed: false });
    throw appError('mass_deletion', {
      detail: `${missing} of ${known} files are missing at the provider. To delete their documents, sync with \`accept_deletions\`.`,
    });
  }

  async function deleteBatch(of: ImportRun, run: ImportRunRow): Promise<boolean> {
    const missing = await createConnectorDocumentsRepository(db).listMissing(run);
    if (missing.length === 0) return false;
    const { owner } = await requireOwner(of, run);
    for (const { remoteId, documentId } of missing) {
      try {
        await documents.remove(owner, documentId, async (trx) => {
          const locked = createImportRunsRepository(trx);
          await locked.lockRun(of);
          if (await createConnectorDocumentsRepository(trx).markGone(of, remoteId)) {
            await locked.addCounts(of, { deleted: 1 });
          }
        });
      } catch (error) {
        if (!(error instanceof AppError) || !isFileError(error)) throw error;
        // Keeps a document that the connection's owner may no longer delete, and excludes it from deletion by later
        // syncs.
        await createConnectorDocumentsRepository(db).detach(of, remoteId);
        await runs.addCounts(of, { failed: 1, total: 1 });
      }
    }
    return true;
  }

  return {
    async begin(of: ImportRun): Promise<void> {
      const run = await requireRun(of);
      await jobs.advance(run.jobId, { status: 'running', stage: 'list' });
      await requireOwner(of, run);
      await listing.begin(of, run);
    },

    async list(of: ImportRun, signal: AbortSignal): Promise<ImportSliceResult> {
      const begun = await requireRun(of);
      await jobs.advance(begun.jobId, { status: 'running', stage: 'list' });
      await requireOwner(of, begun);
      const isMore = await inSlice(signal, async () => listing.next(of, await requireRun(of)));
      if (!isMore) await listing.end(of);
      const run = await requireRun(of);
      await reportProgress(run);
      return { counts: countsOf(run), isMore };
    },

    async pending(of: ImportRun): Promise<UnfinishedImportFiles> {
      const run = await requireRun(of);
      await jobs.advance(run.jobId, { status: 'running', stage: 'import' });
      await reportProgress(run);
      return { numbers: await runs.pendingNumbers(of, FILES_AT_ONCE), counts: countsOf(run) };
    },

    /** Imports one file. Records an error of the file as its result; throws errors that a retry may solve. */
    async fetch(
      { n, ...of }: ImportFileInput,
      { signal, attempt }: { signal: AbortSignal; attempt: number },
    ): Promise<ImportFileResult> {
      const run = await requireRun(of);
      const file = await runs.findFile(of, n);
      if (file === undefined) throw appError('connection_not_found');
      const done = resultOf(file);
      if (done !== undefined) return done;
      const { connection, owner } = await requireOwner(of, run);
      const endDownload = beginDownload(of.orgId);
      const result = await importer
        .importFile({ of, run, file, connection, owner }, signal)
        .then((status): ImportFileResult => ({ status, code: null }))
        .catch(async (error: unknown) => {
          if (signal.aborted || !(error instanceof AppError)) throw error;
          const isLastAttempt = attempt >= ATTEMPTS_OF_FILE && error.code === 'provider_unavailable';
          const isUnavailableAlone = async () => isLastAttempt && (await importer.isProviderAvailable(of, run));
          if (!isFileError(error) && !(await isUnavailableAlone())) throw error;
          return importer.fail({ of, file }, error);
        })
        .finally(endDownload);
      await reportProgress(await requireRun(of));
      return result;
    },

    /**
     * Deletes the documents of files that a sync did not find. After a user has confirmed a `mass_deletion`, lists the
     * provider's files again first, because files may have come back.
     */
    async deleteMissing(of: ImportRun, signal: AbortSignal): Promise<DocumentDeletionSliceResult> {
      const run = await requireRun(of);
      await jobs.advance(run.jobId, { status: 'running', stage: 'delete' });
      if (!run.deletesMissing) return { counts: countsOf(run), isMore: false, mustListAgain: false };
      if (!run.isListed) {
        await listing.listAll(of, run);
        return { counts: countsOf(await requireRun(of)), isMore: true, mustListAgain: true };
      }
      await requireConfirmation(of, run);
      const isMore = await inSlice(signal, () => deleteBatch(of, run));
      return { counts: countsOf(await requireRun(of)), isMore, mustListAgain: false };
    },

    async finish({ attempt, startId, ...of }: RecordImportEndInput): Promise<ImportCounts> {
      const { jobId } = await requireRun(of);
      const error = summaryOf(await runs.mainFailure(of));
      return db.transaction(async (trx) => {
        const locked = createImportRunsRepository(trx);
        await locked.holdConnection(of);
        const end: JobUpdate = { status: 'succeeded', stage: 'finish', ...(error && { error }) };
        await jobs.advanceWithin(trx, jobId, end, { attempt, startId });
        const run = await locked.lockRun(of);
        if (run.kind === 'sync') {
          const syncState = createConnectorDocumentsRepository(trx);
          await syncState.forgetGoneFolders(run);
          await syncState.storeCursor(run);
        }
        return countsOf(run);
      });
    },

    async recordFileFailure({ n, error, ...of }: RecordFileFailureInput): Promise<void> {
      const file = await runs.findFile(of, n);
      if (file !== undefined) await importer.fail({ of, file }, error);
      await reportProgress(await requireRun(of));
    },

    async recordParked({ error, ...of }: RecordImportFailureInput): Promise<void> {
      await jobs.advance((await requireRun(of)).jobId, { status: 'parked', error });
      // If the user renewed the consent before the run was parked, nothing has resumed the run. The sweeper resumes the
      // runs of connections that are marked as outdated.
      if (error.code === 'needs_reauth') await createConnectionSchedulesRepository(db).markOutdated(of);
    },

    async recordResumed(of: ImportRun): Promise<void> {
      await jobs.advance((await requireRun(of)).jobId, { status: 'running' });
    },

    async recordFailure({ error, attempt, startId, ...of }: RecordImportFailureInput): Promise<void> {
      await closeJob(of, { status: 'failed', error }, { attempt, startId });
    },

    async recordCancellation({ attempt, startId, ...of }: RecordImportEndInput): Promise<void> {
      await closeJob(of, { status: 'cancelled' }, { attempt, startId });
    },

    /** Deletes a batch of old import runs. `next` is null after the last batch. */
    async forgetOld(): Promise<{ deleted: number; next: true | null }> {
      const deleted = await runs.deleteOldRuns(RUNS_KEPT_DAYS);
      return { deleted, next: deleted > 0 || null };
    },
  };
}

const isFileError = ({ code, errorClass }: AppError): boolean => errorClass === 'permanent' && !runErrors.has(code);

function countsOf({ total, added, updated, unchanged, deleted, failed }: ImportRunRow): ImportCounts {
  return { total, added, updated, unchanged, deleted, failed };
}

function summaryOf(failure: MostFrequentImportError | undefined): JobUpdate['error'] {
  if (failure === undefined) return undefined;
  const { code, message, count, failed } = failure;
  return { code, message: `${failed} files failed, ${count === failed ? 'all' : count} of them with: ${message}` };
}

function resultOf({ status, errorCode }: ImportFileRow): ImportFileResult | undefined {
  return status === 'pending' ? undefined : { status, code: errorCode };
}
