import { expect } from 'chai';
import { deletionWorkflowId, ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('a document whose creation succeeded without a response to the client', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const note = { name: 'Note', content: 'Written once.', source_format: 'text' };
  const file = { name: 'note.txt', content: 'Uploaded once.' };
  const idOf = ({ body }: { body: unknown }) => (body as { id: string }).id;
  /** Simulates a crash before the response was stored. */
  const loseAnswer = (key: string) =>
    shared.container
      .db('idempotency_keys')
      .where({ key })
      .update({ responseStatus: null, responseHeaders: null, responseBody: null, leaseExpiresAt: new Date(0) });

  it('is returned for the same request with the same Idempotency-Key', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    for (const make of [
      async () => idOf(await ada.post('/documents/paste', note, 201, headers)),
      async () => idOf(await ada.upload('/documents', file, 201, { headers })),
    ]) {
      headers['idempotency-key'] = crypto.randomUUID();
      const first = await make();
      await loseAnswer(headers['idempotency-key']);
      expect(await make()).equal(first);
    }
    const { originals, db } = shared.container;
    await originals.sweepExpired();
    expect(await db('blob_claims').where({ orgId: ada.orgId })).deep.equal([]);
  });

  it('does not keep the file of a repeated request after its original was replaced', async () => {
    const { originals, db, blobs } = shared.container;
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const fields = { ingest: 'false' };
    const older = { name: 'note.txt', content: 'Uploaded before.' };
    const make = async () => idOf(await ada.upload('/documents', older, 201, { headers, fields }));
    const id = await make();
    const { blobKey } = await db('documents').where({ id }).first();
    const newer = { name: 'note.txt', content: 'Uploaded anew.' };
    await ada.upload(`/documents/${id}`, newer, 200, { method: 'PATCH', fields });
    await loseAnswer(headers['idempotency-key']);
    expect(await make()).equal(id);
    await originals.sweepExpired();
    expect(await blobs.exists(blobKey)).equal(false);
    expect(await db('blob_claims').where({ orgId: ada.orgId })).deep.equal([]);
  });

  it('is not returned to another caller with the same key', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const first = idOf(await ada.post('/documents/paste', note, 201, headers));
    await loseAnswer(headers['idempotency-key']);
    const grace = await shared.signUp('Grace');
    const hers = idOf(await grace.post('/documents/paste', note, 201, headers));
    expect(hers).not.equal(first);
  });

  it('is created again after its deletion', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const first = idOf(await ada.post('/documents/paste', note, 201, headers));
    await ada.delete(`/documents/${first}`, 204);
    await untilJob(ada, deletionWorkflowId(first), 'succeeded');
    await loseAnswer(headers['idempotency-key']);
    const again = idOf(await ada.post('/documents/paste', note, 201, headers));
    await untilRun(ada, ingestWorkflowId(again, 1), 'succeeded');
    await ada.get(`/documents/${again}`, 200);
  });
});
