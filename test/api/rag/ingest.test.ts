import { expect } from 'chai';
import type { z } from 'zod';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { ingestRequestResultSchema, ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { aColleague } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

type IngestAnswer = z.infer<typeof ingestRequestResultSchema>;

const paragraphs = Array.from({ length: 60 }, (_, n) => `The fox of paragraph ${n} jumps over ${n + 1} lazy dogs.`);

describe('POST /rag/ingest/{document_id}', () => {
  async function upload(as: Member, fields: Record<string, string> = {}): Promise<string> {
    const sent = { name: 'foxes.txt', content: paragraphs.join('\n\n') };
    const form = { fields: { target_tokens: '40', overlap_tokens: '0', ...fields } };
    return fullDocumentSchema.parse((await as.upload('/documents', sent, 201, form)).body).id;
  }
  const ingest = async (as: ApiClient, id: string, body: object = {}): Promise<IngestAnswer> =>
    ingestRequestResultSchema.parse((await as.post(`/rag/ingest/${id}`, body, 200)).body);
  const run = (id: string, generation: number) => `${ingestWorkflowId(id, generation)}.embed`;

  describe('with workers', () => {
    let shared: Stack;
    let ada: Member;
    before(async () => {
      shared = await stack();
      ada = await shared.signUp();
    });

    const chunks = async (id: string) =>
      chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body).items;

    it('200: ingests a document that was only stored', async () => {
      const id = await upload(ada, { ingest: 'false' });
      const first = await ingest(ada, id);
      expect(first).include({ document_id: id, queued: true, upload_complete: true, embedding_job_id: run(id, 1) });
      await untilRun(ada, first.embedding_job_id, 'succeeded');
      expect(await ingest(ada, id)).include({
        queued: false,
        chunking_complete: true,
        embedding_complete: true,
        embedding_job_id: run(id, 1),
      });
    });

    it('200: rebuilds stale chunks while readers see the old ones', async () => {
      const id = await upload(ada);
      await untilRun(ada, run(id, 1), 'succeeded');
      const { config } = ragConfigResultSchema.parse((await ada.get(`/rag/config/${id}`, 200)).body);
      const before = await chunks(id);
      await ada.put(`/rag/config/${id}`, { ...config, chunking: { ...config.chunking, target_tokens: 200 } }, 200);
      expect(await ingest(ada, id)).include({ queued: true, embedding_job_id: run(id, 2) });
      const seen = new Set<number>();
      await until('the new chunks are there', async () => {
        const { length } = await chunks(id);
        seen.add(length);
        return length !== before.length;
      });
      const after = await chunks(id);
      expect([...seen]).deep.equal([before.length, after.length].filter((length) => seen.has(length)));
      expect(after.length).lessThan(before.length);
      expect(fullDocumentSchema.parse((await ada.get(`/documents/${id}`, 200)).body)).include({
        chunking_stale: false,
        embedding_stale: false,
      });
    });

    it('200: hides the document during a redo until the new chunks are complete', async () => {
      const id = await upload(ada);
      await untilRun(ada, run(id, 1), 'succeeded');
      const before = await chunks(id);
      const answer = await ingest(ada, id, { redo: true });
      expect(answer).include({ queued: true, embedding_complete: false, embedding_job_id: run(id, 2) });
      const old = new Set(before.map((chunk) => chunk.id));
      await until('the new chunks are there', async () => {
        const now = await chunks(id);
        expect(now.some((chunk) => old.has(chunk.id))).equal(false);
        expect(now.length).oneOf([0, before.length]);
        return now.length > 0;
      });
      await untilRun(ada, run(id, 2), 'succeeded');
      const { db } = shared.container;
      for (const table of ['documentGenerations', 'chunks', 'chunkVectors']) {
        expect(new Set(await db(table).where({ documentId: id }).pluck('generation')), table).deep.equal(new Set([2]));
      }
    });
  });

  describe('without workers', () => {
    let own: Stack;
    let ada: Member;
    before(async () => {
      own = await startStack({}, { workers: false });
      ada = await own.signUp();
    });
    after(() => own.close());

    const jobs = (documentId: string) => own.container.db('jobs').where({ documentId });

    it('200: starts one ingestion for repeated and concurrent requests', async () => {
      const id = await upload(ada, { ingest: 'false' });
      const answers = await Promise.all(Array.from({ length: 50 }, () => ingest(ada, id)));
      expect(answers.filter((answer) => answer.queued)).length(1);
      expect(new Set(answers.map((answer) => answer.embedding_job_id))).deep.equal(new Set([run(id, 1)]));
      expect(await jobs(id)).length(1);
    });

    it('200: returns the same answer for the same Idempotency-Key', async () => {
      const id = await upload(ada, { ingest: 'false' });
      const headers = { 'Idempotency-Key': 'once' };
      const [first, second] = [
        await ada.post(`/rag/ingest/${id}`, { redo: true }, 200, headers),
        await ada.post(`/rag/ingest/${id}`, { redo: true }, 200, headers),
      ];
      expect(second.body).deep.equal(first.body);
      expect(await jobs(id)).length(1);
    });

    it('200: restarts a failed or cancelled ingestion', async () => {
      for (const status of ['failed', 'cancelled']) {
        const id = await upload(ada);
        await jobs(id).update({ status, finishedAt: new Date() });
        expect(await ingest(ada, id), status).include({ queued: true, embedding_job_id: run(id, 2) });
      }
    });

    it('200: restarts an ingestion that is being cancelled', async () => {
      const id = await upload(ada);
      await ada.post(`/jobs/${run(id, 1)}/cancel`, {}, 202);
      await jobs(id).update({ status: 'running', finishedAt: null });
      expect(await ingest(ada, id)).include({ queued: true, embedding_job_id: run(id, 2) });
    });

    it('200: starts a new ingestion after a change of the embedding model', async () => {
      const id = await upload(ada);
      const { db } = own.container;
      const ragConfig = db.raw(`jsonb_set(rag_config, '{embedding,model}', '"of-yesterday"')`);
      await db('documentGenerations').where({ documentId: id }).update({ ragConfig });
      await db('documents').where({ id }).update({ activeGeneration: 1 });
      await jobs(id).update({ status: 'succeeded', finishedAt: new Date() });
      expect(await ingest(ada, id)).include({ queued: true, embedding_job_id: run(id, 2) });
    });

    it('200: restarts a parked ingestion whose workflow is lost', async () => {
      const id = await upload(ada);
      await jobs(id).update({ status: 'parked' });
      expect(await ingest(ada, id)).include({ queued: true, embedding_job_id: run(id, 1) });
      expect(await jobs(id).first()).include({ status: 'queued', dispatchedAt: null });
    });

    it('200: resumes a parked ingestion once Temporal is back', async () => {
      const cutOff = await startStack(
        { ...own.settings, TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' },
        { workers: false },
      );
      try {
        const there = ada.at(cutOff.baseUrl);
        const id = await upload(ada);
        const ask = [() => ingest(there, id), () => there.patch(`/documents/${id}`, { ingest: true }, 200)];
        for (const request of ask) {
          await jobs(id).update({ status: 'parked', dispatchedAt: new Date() });
          await request();
          expect(await jobs(id)).length(1);
          expect(await jobs(id).first()).include({ status: 'parked', dispatchedAt: null });
        }
      } finally {
        await cutOff.close();
      }
    });

    it('200: restarts an ingestion that was cancelled in Temporal before a worker stopped it', async () => {
      const { temporal, jobs: sweeper } = own.container;
      await registerSearchAttributes(temporal);
      const id = await upload(ada);
      const jobId = ingestWorkflowId(id, 1);
      await until('it is started', async () => {
        await sweeper.dispatch(jobId);
        return (await jobs(id).first()).dispatchedAt !== null;
      });
      await temporal.client.workflow.getHandle(jobId).cancel();
      await jobs(id).update({ checkedAt: new Date(0) });
      await sweeper.reconcileOpen();
      expect(await ingest(ada, id)).include({ queued: true, embedding_job_id: run(id, 2) });
    });

    it('401: without a token', async () => {
      await own.anonymous.post(`/rag/ingest/${crypto.randomUUID()}`, {}, 401);
    });

    it('403: rejects a user who may only read the document', async () => {
      const grace = await aColleague(own, ada);
      const folders = folderTreeNodeSchema.array().parse((await ada.get('/folders', 200)).body);
      const orgRoot = folders.find((folder) => folder.system_role === 'org_root')?.id ?? '';
      const id = await upload(ada, { ingest: 'false', target_folder_id: orgRoot });
      expect((await grace.post(`/rag/ingest/${id}`, {}, 403)).body).include({ code: 'forbidden' });
    });

    it('404: rejects unknown, unreadable and deleted documents', async () => {
      const id = await upload(ada, { ingest: 'false' });
      const eve = await own.signUp('Eve');
      expect((await eve.post(`/rag/ingest/${id}`, {}, 404)).body).include({ code: 'document_not_found' });
      await ada.delete(`/documents/${id}`, 204);
      for (const path of [id, crypto.randomUUID(), '7']) await ada.post(`/rag/ingest/${path}`, {}, 404);
    });

    it('422: rejects invalid and unknown fields', async () => {
      const id = await upload(ada, { ingest: 'false' });
      for (const body of [{ redo: 'yes' }, { again: true }]) await ada.post(`/rag/ingest/${id}`, body, 422);
    });
  });
});
