import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { jobListSchema } from '#src/modules/jobs/jobs.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('GET /jobs', () => {
  let shared: Stack;
  let ada: Member;
  let good: string;
  let bad: string;

  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    good = await upload('good.txt', 'All is well.');
    bad = await upload('bad.bin', '\x00\x01\x02\x03 not a document');
    await untilJob(ada, `ingest-${good}-1`, 'succeeded');
    await untilJob(ada, `ingest-${bad}-1`, 'failed');
  });

  async function upload(name: string, content: string): Promise<string> {
    return fullDocumentSchema.parse((await ada.upload('/documents', { name, content }, 201)).body).id;
  }
  const list = async (query: string, member = ada) =>
    jobListSchema.parse((await member.get(`/jobs${query}`, 200)).body);
  const ids = async (query: string, member = ada) => (await list(query, member)).items.map((job) => job.id);

  it('200: lists the readable jobs, newest first', async () => {
    expect(await ids('')).deep.equal([`ingest-${bad}-1`, `ingest-${good}-1`]);
    expect(await ids('', await shared.signUp())).deep.equal([]);
    expect(await ids('', await aColleague(shared, ada))).deep.equal([]);
  });

  it('200: applies each filter', async () => {
    expect(await ids('?status=failed')).deep.equal([`ingest-${bad}-1`]);
    expect(await ids('?error_code=unsupported_format')).deep.equal([`ingest-${bad}-1`]);
    expect(await ids(`?document_id=${good}`)).deep.equal([`ingest-${good}-1`]);
    expect(await ids('?kind=alignment')).deep.equal([]);
    expect(await ids(`?connection_id=${crypto.randomUUID()}`)).deep.equal([]);
  });

  it('200: lists the jobs of the documents in a readable folder', async () => {
    const grace = await shared.signUp('Grace');
    const { body } = await ada.get('/folders', 200);
    const root = folderTreeNodeSchema
      .array()
      .parse(body)
      .find((folder) => folder.system_role === 'personal_root');
    expect(await ids(`?folder_id=${root?.id}`)).deep.equal([`ingest-${bad}-1`, `ingest-${good}-1`]);
    expect(await ids(`?folder_id=${root?.id}&status=failed`)).deep.equal([`ingest-${bad}-1`]);
    expect(await ids(`?folder_id=${crypto.randomUUID()}`)).deep.equal([]);
    expect(await ids(`?folder_id=${root?.id}`, grace)).deep.equal([]);
  });

  it('200: returns pages with a cursor', async () => {
    const first = await list('?limit=1');
    expect(first.items.map((job) => job.id)).deep.equal([`ingest-${bad}-1`]);
    const second = await list(`?limit=1&cursor=${first.next_cursor}`);
    expect(second.items.map((job) => job.id)).deep.equal([`ingest-${good}-1`]);
    expect(second.next_cursor).equal(null);
  });

  it('400: rejects a cursor that was made with other filters', async () => {
    const { next_cursor } = await list('?limit=1');
    await ada.get(`/jobs?limit=1&status=failed&cursor=${next_cursor}`, 400);
  });

  it('401: without a token', async () => {
    await shared.anonymous.get('/jobs', 401);
  });

  it('422: rejects unknown filter values and fields', async () => {
    for (const query of [
      '?kind=x',
      '?status=x',
      '?document_id=x',
      '?folder_id=x',
      '?connection_id=x',
      '?limit=0',
      '?x=1',
    ]) {
      await ada.get(`/jobs${query}`, 422);
    }
  });
});
