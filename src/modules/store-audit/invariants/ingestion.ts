import type { Knex } from 'knex';
import {
  bigintColumn,
  booleanColumn,
  defineRowShape,
  integerColumn,
  pickColumns,
  queryOneRow,
  queryRows,
  type SqlRow,
} from '#src/adapters/postgres/shapes.ts';
import type { StoreAuditFindingKind, StoreAuditStage } from '#src/domain/documents/audit-report.ts';
import { ChunkModel } from '#src/modules/documents/documents.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import type { StoreAuditFinding } from '../store-audit.repository.ts';
import { createStoreAuditInspector } from '../store-audit.service.ts';
import {
  countRows,
  type InvariantCheck,
  type InvariantDeps,
  type InvariantGracePeriods,
  queryRowPagesById,
  violatingRowShape,
} from './invariant.ts';

const unfinishedDocument = defineRowShape({ ...violatingRowShape.columns, generation: integerColumn() });
const openJob = pickColumns(JobModel, 'id', 'orgId', 'documentId');

const unfinishedDocuments = `
  select * from (
     select d.id, d.org_id, d.generation,
            case
              when j.id is null then 'has no job'
              when j.status = 'failed' and (j.error_code is null or j.error_message is null) then 'failed without a reason'
              when j.status = 'succeeded' and d.active_generation is distinct from d.generation
                then 'succeeded but is not the active one'
            end as fault
     from documents d
     left join jobs j on j.id = 'ingest-' || d.id || '-' || d.generation
     where d.generation > 0 and d.deleted_at is null and d.id > :after
   ) document
   where fault is not null`;

export const uploadsReachAnEnd: InvariantCheck = {
  invariant: 'I1',
  title: 'every uploaded document is complete, failed with a reason, or being processed by a workflow run',
  async run(deps, grace, report) {
    for await (const documents of queryRowPagesById(deps.db, unfinishedDocument, unfinishedDocuments)) {
      for (const { id, orgId, generation, fault } of documents) {
        report({ orgId, documentId: id, detail: `Generation ${generation} ${fault}.` });
      }
    }
    await eachJobWithoutRun(deps, grace, ({ id, orgId, documentId }) =>
      report({
        orgId,
        detail: `Job ${id} is open but has no open workflow run.`,
        ...(documentId !== null && { documentId }),
      }),
    );
    return countRows(deps.db, 'documents', 'generation > 0 and deleted_at is null');
  },
};

async function eachJobWithoutRun(
  { db, orchestrator }: InvariantDeps,
  { reconcileSeconds: seconds }: InvariantGracePeriods,
  report: (job: SqlRow<typeof openJob>) => void,
): Promise<void> {
  const unchanged = `
    select id, org_id, document_id from jobs
    where id > :after and finished_at is null and dispatched_at is not null
      and greatest(updated_at, dispatched_at) < now() - make_interval(secs => :seconds)`;
  for await (const jobs of queryRowPagesById(db, openJob, unchanged, { after: '', seconds })) {
    for (const job of jobs) {
      if ((await orchestrator.describe(job.id)) === 'open') continue;
      const isStillOpen = await JobModel.table(db)
        .where({ id: job.id, finishedAt: null })
        .whereNotNull('dispatchedAt')
        .first('id');
      if (isStillOpen !== undefined) report(job);
    }
  }
}

const activeChunk = pickColumns(ChunkModel, 'id', 'orgId', 'documentId');
type ActiveChunk = SqlRow<typeof activeChunk>;

const activeChunks = `
  select c.id, c.org_id, c.document_id
  from chunks c
  join documents d on d.org_id = c.org_id and d.id = c.document_id and d.active_generation = c.generation
  where d.deleted_at is null`;

export const chunksMatchVectors: InvariantCheck = {
  invariant: 'I2',
  title: 'active chunks are numbered 0..n-1 without gaps, and each has its vector',
  async run(deps, grace, report) {
    const checked = await eachFinding(deps, 'documents', grace, ({ kind, orgId, id, detail }) => {
      if (kind === 'broken_chunks' || kind === 'missing_points') report({ orgId, documentId: id, detail });
    });
    await eachChunkWithoutVector(deps, ({ id, orgId, documentId }) =>
      report({ orgId, documentId, detail: `Chunk ${id} has no vector.` }),
    );
    return checked;
  },
};

/**
 * Reports active chunks without a vector. Vectors without a chunk are found separately, by comparing the numbers of
 * chunks and vectors.
 */
async function eachChunkWithoutVector(
  { db, vectors }: InvariantDeps,
  report: (chunk: ActiveChunk) => void,
): Promise<void> {
  for await (const chunks of queryRowPagesById(db, activeChunk, `${activeChunks} and c.id > :after`)) {
    const suspects: ActiveChunk[] = [];
    for (const [orgId, own] of Map.groupBy(chunks, (chunk) => chunk.orgId)) {
      const stored = await vectors.findExisting({ orgId, chunkIds: own.map((chunk) => chunk.id) });
      suspects.push(...own.filter((chunk) => !stored.has(chunk.id)));
    }
    // A chunk without a vector is no fault if its document has another active generation by now.
    const stillActive = await queryRows(db, activeChunk, `${activeChunks} and c.id = any (?::uuid[])`, [
      suspects.map((chunk) => chunk.id),
    ]);
    stillActive.forEach(report);
  }
}

const termCounts = defineRowShape({
  wrongTerms: bigintColumn(),
  countedChunks: bigintColumn(),
  countedTerms: bigintColumn(),
  chunks: bigintColumn(),
  terms: bigintColumn(),
});

export const termCountsMatchChunks: InvariantCheck = {
  invariant: 'I2',
  title: 'the BM25 statistics of each organization equal the chunks and terms that are stored',
  async run({ db }, _grace, report) {
    let checked = 0;
    const all = 'select id from organizations where id > :after';
    for await (const organizations of queryRowPagesById(db, pickColumns(OrganizationModel, 'id'), all)) {
      for (const { id: orgId } of organizations) {
        const { wrongTerms, countedChunks, countedTerms, chunks, terms } = await recountTerms(db, orgId);
        if (wrongTerms > 0) report({ orgId, detail: `The chunk counts of ${wrongTerms} terms are wrong.` });
        if (countedChunks !== chunks || countedTerms !== terms) {
          const stored = `but ${chunks} chunks with ${terms} terms are stored.`;
          report({
            orgId,
            detail: `The statistics count ${countedChunks} chunks with ${countedTerms} terms, ${stored}`,
          });
        }
      }
      checked += organizations.length;
    }
    return checked;
  },
};

/** Compares the term statistics with the chunks in one SQL statement, so that both come from the same snapshot. */
function recountTerms(db: Knex, orgId: string): Promise<SqlRow<typeof termCounts>> {
  return queryOneRow(
    db,
    termCounts,
    `select
       (select count(*)
        from (select term, chunk_count from term_statistics where org_id = :orgId) counted
        full join (
          select term, sum(cardinality(postings)) as chunk_count from document_terms where org_id = :orgId group by term
        ) stored using (term)
        where coalesce(counted.chunk_count, 0) <> coalesce(stored.chunk_count, 0)) as wrong_terms,
       coalesce(counted.chunk_count, 0) as counted_chunks, coalesce(counted.term_count, 0) as counted_terms,
       stored.chunks, stored.terms
     from (select count(*) as chunks, coalesce(sum(term_count), 0) as terms from chunks where org_id = :orgId) stored
     left join chunk_statistics counted on counted.org_id = :orgId`,
    { orgId },
  );
}

const passes: StoreAuditStage[] = ['points', 'documents', 'blobs', 'deletions'];
const reportedByI2: StoreAuditFindingKind[] = ['broken_chunks', 'missing_points'];

export const noDataIsOrphaned: InvariantCheck = {
  invariant: 'I4',
  title: 'no orphaned vectors, chunks or originals, no document without its original, no deletion without a job',
  async run(deps, grace, report) {
    let checked = 0;
    for (const pass of passes) {
      checked += await eachFinding(deps, pass, grace, ({ kind, orgId, id, detail }) => {
        if (reportedByI2.includes(kind)) return;
        const isDocument = kind !== 'orphan_blob';
        report({ orgId, detail: `${kind} ${id}: ${detail}`, ...(isDocument && { documentId: id }) });
      });
    }
    return checked;
  },
};

async function eachFinding(
  deps: InvariantDeps,
  pass: StoreAuditStage,
  { orphanSeconds }: InvariantGracePeriods,
  report: (finding: StoreAuditFinding) => void,
): Promise<number> {
  const { inspect } = createStoreAuditInspector(deps);
  let checked = 0;
  for (let after: string | null = null; ; ) {
    const page = await inspect(pass, after, orphanSeconds);
    page.findings.forEach(report);
    checked += page.checked;
    if (page.next === null) return checked;
    after = page.next;
  }
}

/** Every attempt at a workflow step updates its job, so a job that is unchanged for this long is stuck. */
const STUCK_AFTER_HOURS = 48;

const stuckJob = defineRowShape({
  ...pickColumns(JobModel, 'id', 'orgId', 'documentId').columns,
  isUnstarted: booleanColumn(),
});

/**
 * Selects jobs that were not started in time or are unchanged for too long. Paused jobs, and those that wait for a
 * date, may be unchanged for longer.
 */
const stuckJobs = `
  select id, org_id, document_id, dispatched_at is null as is_unstarted
  from jobs
  where id > :after and finished_at is null and (
    (dispatched_at is null and greatest(updated_at, checked_at) < now() - make_interval(secs => :dispatchSeconds))
    or (
      status in ('queued', 'running') and coalesce(stage, '') not in ('paused', 'wait')
      and greatest(updated_at, dispatched_at) < now() - make_interval(hours => :stuckAfterHours)
    )
  )`;

export const noJobIsStuck: InvariantCheck = {
  invariant: 'I11',
  title: `every job is started, and none that runs is unchanged for over ${STUCK_AFTER_HOURS} hours`,
  async run({ db }, { dispatchSeconds }, report) {
    const values = { after: '', dispatchSeconds, stuckAfterHours: STUCK_AFTER_HOURS };
    for await (const jobs of queryRowPagesById(db, stuckJob, stuckJobs, values)) {
      for (const { id, orgId, documentId, isUnstarted } of jobs) {
        const fault = isUnstarted ? 'was never started' : `is unchanged for over ${STUCK_AFTER_HOURS} hours`;
        report({ orgId, detail: `Job ${id} ${fault}.`, ...(documentId !== null && { documentId }) });
      }
    }
    return countRows(db, 'jobs', 'finished_at is null');
  },
};
