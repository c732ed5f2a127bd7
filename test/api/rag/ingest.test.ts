import { expect } from 'chai';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { ingestRequestResultSchema } from '#src/modules/rag/rag.schema.ts';
import { anUpload, readDocument } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

const paragraphs = Array.from({ length: 60 }, (_, n) => `The fox of paragraph ${n} jumps over ${n + 1} lazy dogs.`);

describe('POST /rag/ingest/{document_id}', () => {
  let ada: Member;
  async function upload(fields: Record<string, string> = {}): Promise<string> {
    const sent = { name: 'foxes.txt', content: paragraphs.join('\n\n') };
    return (await anUpload(ada, sent, { target_tokens: '40', overlap_tokens: '0', ...fields })).id;
  }
  const ingest = async (id: string, body: object = {}) =>
    ingestRequestResultSchema.parse((await ada.post(`/rag/ingest/${id}`, body, 200)).body);
  const run = (id: string, generation: number) => `${ingestWorkflowId(id, generation)}.embed`;

  describe('with workers', () => {
    let shared: Stack;
    before(async () => {
      shared = await stack();
      ada = await shared.signUp();
    });

    const chunks = async (id: string) =>
      chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body).items;

    it('ingests a document once that was only stored before', async () => {
      const id = await upload({ ingest: 'false' });
      const asked = { document_id: id, upload_complete: true, embedding_job_id: run(id, 1) };
      expect(await ingest(id)).include({ ...asked, queued: true });
      await untilRun(ada, run(id, 1), 'succeeded');
      const done = { queued: false, chunking_complete: true, embedding_complete: true };
      expect(await ingest(id)).include({ ...asked, ...done });
    });

    it('rebuilds stale chunks while readers see the old chunks', async () => {
      const id = await upload();
      await untilRun(ada, run(id, 1), 'succeeded');
      const { config } = Object((await ada.get(`/rag/config/${id}`, 200)).body);
      const before = await chunks(id);
      await ada.put(`/rag/config/${id}`, { ...config, chunking: { ...config.chunking, target_tokens: 200 } }, 200);
      expect(await ingest(id)).include({ queued: true, embedding_job_id: run(id, 2) });
      const seen = new Set<number>();
      await until('the new chunks are there', async () => {
        const { length } = await chunks(id);
        seen.add(length);
        return length !== before.length;
      });
      const { length } = await chunks(id);
      expect(length).lessThan(before.length);
      expect([...seen]).deep.equal([before.length, length].filter((each) => seen.has(each)));
      const fresh = { chunking_stale: false, embedding_stale: false };
      expect(await readDocument(ada, id)).include(fresh);
    });

    it('hides the document until the new chunks are complete if the request sets `redo`', async () => {
      const id = await upload();
      await untilRun(ada, run(id, 1), 'succeeded');
      const old = new Set((await chunks(id)).map((chunk) => chunk.id));
      const answer = { queued: true, embedding_complete: false, embedding_job_id: run(id, 2) };
      expect(await ingest(id, { redo: true })).include(answer);
      await until('the new chunks are there', async () => {
        const now = await chunks(id);
        expect(now.some((chunk) => old.has(chunk.id))).equal(false);
        expect(now.length).oneOf([0, old.size]);
        return now.length > 0;
      });
      await untilRun(ada, run(id, 2), 'succeeded');
      for (const table of ['documentGenerations', 'chunks', 'chunkVectors']) {
        const kept = await shared.container
          .db(table)
          .where({ documentId: id })
          .distinct('generation')
          .pluck('generation');
        expect(kept, table).deep.equal([2]);
      }
    });
  });

  describe('without workers', () => {
    let own: Stack;
    before(async () => {
      own = await startStack({}, { workers: false });
      ada = await own.signUp();
    });
    after(() => own.close());

    const jobs = (documentId: string) => own.container.db('jobs').where({ documentId });

    it('starts one ingestion for repeated and concurrent requests', async () => {
      const id = await upload({ ingest: 'false' });
      const answers = await Promise.all(Array.from({ length: 50 }, () => ingest(id)));
      expect(answers.filter((answer) => answer.queued)).length(1);
      expect(new Set(answers.map((answer) => answer.embedding_job_id))).deep.equal(new Set([run(id, 1)]));
      expect(await jobs(id)).length(1);
    });

    const ingestions: Record<string, [prepare: (id: string) => Promise<unknown>, generation: number]> = {
      // First: no workflow starts as long as Temporal does not know the search attributes.
      'that is parked and whose workflow is lost': [(id) => jobs(id).update({ status: 'parked' }), 1],
      'that failed': [(id) => jobs(id).update({ status: 'failed', finishedAt: new Date() }), 2],
      'that was cancelled': [(id) => jobs(id).update({ status: 'cancelled', finishedAt: new Date() }), 2],
      'that is being cancelled': [
        async (id) => {
          await ada.post(`/jobs/${run(id, 1)}/cancel`, {}, 202);
          await jobs(id).update({ status: 'running', finishedAt: null });
        },
        2,
      ],
    };
    for (const [what, [prepare, generation]] of Object.entries(ingestions)) {
      it(`restarts an ingestion ${what}`, async () => {
        const id = await upload();
        await prepare(id);
        expect(await ingest(id)).include({ queued: true, embedding_job_id: run(id, generation) });
        const [job] = await jobs(id).where({ id: ingestWorkflowId(id, generation) });
        expect(job.status).equal('queued');
        if (generation === 1) expect(job.dispatchedAt).equal(null);
      });
    }
  });
});
