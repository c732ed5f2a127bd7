import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { jobSummarySchema } from '#src/modules/jobs/jobs.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('GET /jobs/summary', () => {
  let shared: Stack;
  let ada: Member;
  let good: string;
  let folderId: string | undefined;

  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    const stored = await upload('good.txt', 'All is well.');
    good = stored.id;
    [folderId] = stored.folder_ids;
    const bad = await upload('bad.bin', '\x00\x01\x02\x03 not a document');
    await untilJob(ada, `ingest-${good}-1`, 'succeeded');
    await untilJob(ada, `ingest-${bad.id}-1`, 'failed');
  });

  async function upload(name: string, content: string) {
    return fullDocumentSchema.parse((await ada.upload('/documents', { name, content }, 201)).body);
  }
  const summary = async (query = '', member = ada) =>
    jobSummarySchema.parse((await member.get(`/jobs/summary${query}`, 200)).body);

  it('200: counts the readable jobs by status, with their total progress', async () => {
    const counts = { queued: 0, running: 0, parked: 0, succeeded: 1, failed: 1, cancelled: 0, total: 2 };
    expect(await summary()).deep.equal({ ...counts, progress: { done: 1, total: 1, unit: 'chunks' } });
    expect((await summary('', await shared.signUp())).total).equal(0);
    expect((await summary('', await aColleague(shared, ada))).total).equal(0);
  });

  it('200: applies the filters of the list', async () => {
    expect(await summary(`?folder_id=${folderId}`)).include({ succeeded: 1, failed: 1, total: 2 });
    expect(await summary('?status=failed')).include({ succeeded: 0, failed: 1, total: 1 });
    expect(await summary('?error_code=unsupported_format')).include({ failed: 1, total: 1 });
    expect(await summary(`?document_id=${good}`)).include({ succeeded: 1, total: 1 });
    expect((await summary(`?folder_id=${crypto.randomUUID()}`)).total).equal(0);
    expect((await summary('?kind=alignment')).total).equal(0);
  });

  it('200: counts a document that was ingested again once', async () => {
    await ada.patch(`/documents/${good}`, { target_tokens: 40, ingest: true }, 200);
    await untilJob(ada, `ingest-${good}-2`, 'succeeded');
    expect(await summary()).include({ succeeded: 1, failed: 1, total: 2 });
  });

  it('401: without a token', async () => {
    await shared.anonymous.get('/jobs/summary', 401);
  });

  it('422: rejects unknown filter values and fields', async () => {
    for (const query of ['?kind=x', '?status=x', '?folder_id=x', '?limit=1']) {
      await ada.get(`/jobs/summary${query}`, 422);
    }
  });
});
