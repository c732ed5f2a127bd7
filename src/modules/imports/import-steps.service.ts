import type { Knex } from 'knex';
import type { AttemptOfJob } from '#src/contracts/attempts.ts';
import type {
  DeletionSlice,
  ImportCounts,
  ImportFileInput,
  ImportFileResult,
  ImportRun,
  ImportSlice,
  PendingFiles,
  RecordFileFailureInput,
  RecordImportEndInput,
  RecordImportFailureInput,
} from '#src/contracts/connectors.ts';
import { importWorkflowId, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { createSlotCounter } from '#src/domain/access/limits.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { AppError, appError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { JobChange, JobsService } from '#src/modules/jobs/jobs.service.ts';
import { createConnectionSchedulesRepository } from './connection-schedules.repository.ts';
import { createConnectorDocumentsRepository } from './connector-documents.repository.ts';
import type { FileImporter } from './file-importer.ts';
import { createImportFilesRepository, type MainFailure } from './import-files.repository.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';
import type { ImportConnection, ImportFileRow, ImportRunRow } from './imports.model.ts';
import type { RemoteListing } from './remote-listing.ts';

/** Of one step: then it says how far it is. */
const SLICE_MS = 20_000;
const FILES_AT_ONCE = 500;
/** Some four minutes. A provider that has something else by then never has this file. */
const ATTEMPTS_OF_FILE = 10;
/**
 * Of an organization in one process, which is half of what a worker fetches at once: a provider may send a file as slowly
 * as it likes.
 */
const FETCHES_AT_ONCE = 16;
const FETCH_AGAIN_SECONDS = 5;
/** A sync that would delete more than so many, and more than such a part of all, asks somebody first. */
const DELETED_UNASKED = 20;
const PART_DELETED_UNASKED = 0.3;
const RUNS_KEPT_DAYS = 90;

/** What ends a run, and not one of its files. */
const endOfAll = new Set(['connection_not_found', 'account_disabled', 'invalid_token']);

export type ImportStepsService = ReturnType<typeof createImportStepsService>;

/** The work of imports and syncs, one method a step. Each finds what was done before, and does not do it again. */
export function createImportStepsService(deps: {
  db: Knex;
  listing: RemoteListing;
  importer: FileImporter;
  documents: Pick<DocumentsService, 'remove'>;
  jobs: Pick<JobsService, 'advance' | 'advanceWithin'>;
  findActor: (userId: string) => Promise<Actor | null>;
}) {
  const { db, listing, importer, documents, jobs, findActor } = deps;
  const runs = createImportRunsRepository(db);
  const files = createImportFilesRepository(db);
  const schedules = createConnectionSchedulesRepository(db);
  /** Files that are being fetched, by organization. */
  const fetching = createSlotCounter();

  /** Throws `rate_limited`. @returns gives the place back */
  function takeFetch(orgId: string): () => void {
    if (fetching.of(orgId) >= FETCHES_AT_ONCE) {
      const detail = `Your organization fetches ${FETCHES_AT_ONCE} files from providers already.`;
      throw appError('rate_limited', { detail, retryAfterSeconds: FETCH_AGAIN_SECONDS });
    }
    return fetching.take(orgId);
  }

  async function requireRun(of: ImportRun): Promise<ImportRunRow> {
    const run = await runs.find(of);
    // It has gone with its connection.
    if (run === undefined) throw appError('connection_not_found');
    return run;
  }

  /** In whose name a run works: as long as he may. */
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

  /** Repeats a small step until nothing is left, or its time is up. */
  async function inSlice(signal: AbortSignal, step: () => Promise<boolean>): Promise<boolean> {
    const endMs = performance.now() + SLICE_MS;
    while (performance.now() < endMs) {
      signal.throwIfAborted();
      if (!(await step())) return false;
    }
    return true;
  }

  async function show(run: ImportRunRow): Promise<void> {
    const { total, added, updated, unchanged, failed } = run;
    const progress = { done: added + updated + unchanged + failed, total: run.isListed ? total : null, unit: 'files' };
    await jobs.advance(run.jobId, { progress });
  }

  /** Also when the run has gone with its connection: a start is that of one job. */
  async function close(of: ImportRun, change: JobChange, attempt: AttemptOfJob): Promise<void> {
    const run = await runs.find(of);
    const jobIds = run === undefined ? [importWorkflowId(of.runId), syncWorkflowId(of.connectionId)] : [run.jobId];
    for (const jobId of jobIds) await jobs.advance(jobId, change, attempt);
  }

  async function requireLeaveToDelete(of: ImportRun, run: ImportRunRow): Promise<void> {
    if (run.acceptsDeletions || run.deleted > 0) return;
    const { missing, known } = await createConnectorDocumentsRepository(db).countMissing(run);
    if (missing <= DELETED_UNASKED || missing <= known * PART_DELETED_UNASKED) return;
    // Whatever is answered, by then another listing has to say what is missing.
    await runs.update(of, { isListed: false });
    throw appError('mass_deletion', {
      detail: `Of ${known} files ${missing} are not there any more. To delete their documents, too, answer with \`accept_deletions\`.`,
    });
  }

  async function deleteSome(of: ImportRun, run: ImportRunRow): Promise<boolean> {
    const missing = await createConnectorDocumentsRepository(db).listMissing(run);
    if (missing.length === 0) return false;
    const { owner } = await requireOwner(of, run);
    for (const { remoteId, documentId } of missing) {
      try {
        await documents.remove(owner, documentId, async (trx) => {
          if ((await createImportRunsRepository(trx).lock(of)) === undefined) throw appError('connection_not_found');
          if (await createConnectorDocumentsRepository(trx).markGone(of, remoteId)) {
            await createImportRunsRepository(trx).add(of, { deleted: 1 });
          }
        });
      } catch (error) {
        if (!(error instanceof AppError) || !isOfFile(error)) throw error;
        // Its owner may not delete it any more.
        await createConnectorDocumentsRepository(db).release(of, remoteId);
        await runs.add(of, { failed: 1, total: 1 });
      }
    }
    return true;
  }

  return {
    /** Throws `account_disabled` when nobody is there in whose name to work, `needs_reauth`. */
    async begin(of: ImportRun): Promise<void> {
      const run = await requireRun(of);
      await jobs.advance(run.jobId, { status: 'running', stage: 'list' });
      await requireOwner(of, run);
      await listing.begin(of, run);
    },

    async list(of: ImportRun, signal: AbortSignal): Promise<ImportSlice> {
      const begun = await requireRun(of);
      await jobs.advance(begun.jobId, { status: 'running', stage: 'list' });
      await requireOwner(of, begun);
      const isMore = await inSlice(signal, async () => listing.next(of, await requireRun(of)));
      if (!isMore) await listing.end(of);
      const run = await requireRun(of);
      await show(run);
      return { counts: countsOf(run), isMore };
    },

    async pending(of: ImportRun): Promise<PendingFiles> {
      const run = await requireRun(of);
      await jobs.advance(run.jobId, { status: 'running', stage: 'import' });
      await show(run);
      return { numbers: await files.pendingNumbers(of, FILES_AT_ONCE), counts: countsOf(run) };
    },

    /** What is wrong with one file ends it, and not the run; what may pass is thrown, to be tried again. */
    async fetch(
      { n, ...of }: ImportFileInput,
      { signal, attempt }: { signal: AbortSignal; attempt: number },
    ): Promise<ImportFileResult> {
      const run = await requireRun(of);
      const file = await files.find(of, n);
      if (file === undefined) throw appError('connection_not_found');
      const done = resultOf(file);
      if (done !== undefined) return done;
      const { connection, owner } = await requireOwner(of, run);
      const giveBack = takeFetch(of.orgId);
      const result = await importer
        .importFile({ of, run, file, connection, owner }, signal)
        .then((status): ImportFileResult => ({ status, code: null }))
        .catch(async (error: unknown) => {
          if (signal.aborted || !(error instanceof AppError)) throw error;
          const isHopeless = async () =>
            attempt >= ATTEMPTS_OF_FILE &&
            error.code === 'provider_unavailable' &&
            (await importer.providerAnswers(of, run));
          if (!isOfFile(error) && !(await isHopeless())) throw error;
          return importer.fail({ of, file }, error);
        })
        .finally(giveBack);
      await show(await requireRun(of));
      return result;
    },

    /**
     * Of a sync that mirrors deletions. Throws `mass_deletion` while nobody has said that so many may go; tried again, it
     * has all listed anew first.
     */
    async deleteMissing(of: ImportRun, signal: AbortSignal): Promise<DeletionSlice> {
      const run = await requireRun(of);
      await jobs.advance(run.jobId, { status: 'running', stage: 'delete' });
      if (!run.deletesMissing) return { counts: countsOf(run), isMore: false, mustListAgain: false };
      if (!run.isListed) {
        await listing.compareAll(of, run);
        return { counts: countsOf(await requireRun(of)), isMore: true, mustListAgain: true };
      }
      await requireLeaveToDelete(of, run);
      const isMore = await inSlice(signal, () => deleteSome(of, run));
      return { counts: countsOf(await requireRun(of)), isMore, mustListAgain: false };
    },

    /** The next sync goes on from here. What failed of a run that succeeds is told as its last error. */
    async finish({ attempt, startId, ...of }: RecordImportEndInput): Promise<ImportCounts> {
      const { jobId } = await requireRun(of);
      const error = errorOf(await files.mainFailure(of));
      return db.transaction(async (trx) => {
        const held = createImportRunsRepository(trx);
        await held.holdConnection(of);
        const end: JobChange = { status: 'succeeded', stage: 'finish', ...(error && { error }) };
        await jobs.advanceWithin(trx, jobId, end, { attempt, startId });
        const run = await held.lock(of);
        if (run === undefined) throw appError('connection_not_found');
        if (run.kind === 'sync') {
          await createConnectorDocumentsRepository(trx).forgetGoneFolders(run);
          await held.keepCursor(run, run.mode === 'full');
        }
        return countsOf(run);
      });
    },

    async recordFileFailure({ n, error, ...of }: RecordFileFailureInput): Promise<void> {
      const file = await files.find(of, n);
      if (file !== undefined) await importer.fail({ of, file }, error);
      await show(await requireRun(of));
    },

    async recordParked({ error, ...of }: RecordImportFailureInput): Promise<void> {
      await jobs.advance((await requireRun(of)).jobId, { status: 'parked', error });
      // Its owner may have consented again while files were still on their way, when nothing was parked.
      if (error.code === 'needs_reauth') await schedules.outdate(of);
    },

    async recordResumed(of: ImportRun): Promise<void> {
      await jobs.advance((await requireRun(of)).jobId, { status: 'running' });
    },

    async recordFailure({ error, attempt, startId, ...of }: RecordImportFailureInput): Promise<void> {
      await close(of, { status: 'failed', error }, { attempt, startId });
    },

    async recordCancellation({ attempt, startId, ...of }: RecordImportEndInput): Promise<void> {
      await close(of, { status: 'cancelled' }, { attempt, startId });
    },

    /** A part of a sweep. @returns null after the last */
    forgetOld: async (): Promise<true | null> => ((await runs.deleteOld(RUNS_KEPT_DAYS)) ? true : null),
  };
}

const isOfFile = ({ code, errorClass }: AppError): boolean => errorClass === 'permanent' && !endOfAll.has(code);

function countsOf({ total, added, updated, unchanged, deleted, failed }: ImportRunRow): ImportCounts {
  return { total, added, updated, unchanged, deleted, failed };
}

/** What a run is told to have met whose other files are here. */
function errorOf(failure: MainFailure | undefined): JobChange['error'] {
  if (failure === undefined) return undefined;
  const { code, message, count, failed } = failure;
  return { code, message: `${failed} failed, ${count === failed ? 'all' : count} of them so: ${message}` };
}

function resultOf({ status, errorCode }: ImportFileRow): ImportFileResult | undefined {
  return status === 'pending' ? undefined : { status, code: errorCode };
}
