import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { jobSchema } from '#src/modules/jobs/jobs.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('GET /jobs/{job_id}', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  async function upload(name: string, content: string): Promise<string> {
    const { body } = await ada.upload('/documents', { name, content }, 201);
    return `ingest-${fullDocumentSchema.parse(body).id}-1`;
  }
  const get = async (jobId: string) => jobSchema.parse((await ada.get(`/jobs/${jobId}`, 200)).body);

  it('200: returns a successful ingestion and its parts', async () => {
    const id = await upload('note.txt', 'The fox is quick. The dog is lazy.');
    await untilJob(ada, id, 'succeeded');
    const job = await get(id);
    expect(job).deep.include({
      id,
      kind: 'ingest',
      stage: 'activate',
      progress: { done: 1, total: 1, unit: 'chunks' },
      attempt: 1,
      last_error: null,
    });
    expect(job.started_at).a('string');
    expect(job.finished_at).a('string');
    for (const part of ['parse', 'convert', 'chunk', 'embed', 'activate']) {
      expect(await get(`${id}.${part}`), part).deep.include({ id: `${id}.${part}`, status: 'succeeded', stage: part });
    }
  });

  it('200: links to the run in the Temporal UI', async () => {
    const id = await upload('found.txt', 'Somewhere.');
    const { temporal_ui_url: url } = await get(id);
    expect(url).equal(`${shared.config.temporal.uiUrl}/namespaces/${shared.config.temporal.namespace}/workflows/${id}`);
  });

  it('200: shows the error code of a failed ingestion only at the part that failed', async () => {
    const id = await upload('picture.bin', '\x00\x01\x02\x03 not a document');
    const job = await untilJob(ada, id, 'failed');
    expect(job.last_error).property('code', 'unsupported_format');
    expect(await get(`${id}.parse`)).deep.include({ status: 'failed', last_error: job.last_error });
    expect(await get(`${id}.embed`)).deep.include({ status: 'cancelled', last_error: null });
    const { document_id } = await get(id);
    const { body } = await ada.get(`/documents/${document_id}`, 200);
    expect(body).deep.include({ last_error: job.last_error, parse_job_id: `${id}.parse` });
  });

  it('401: without a token', async () => {
    await shared.anonymous.get('/jobs/ingest-x-1', 401);
  });

  it('404: for an unknown job or part, and for jobs that the caller may not read', async () => {
    const id = await upload('mine.txt', 'Mine alone.');
    await ada.get('/jobs/ingest-x-1', 404);
    await ada.get(`/jobs/${id}.unknown`, 404);
    await ada.get(`/jobs/${'x'.repeat(300)}`, 404);
    await ada.get('/jobs/%00', 404);
    await (await shared.signUp()).get(`/jobs/${id}`, 404);
    await (await aColleague(shared, ada)).get(`/jobs/${id}`, 404);
  });
});
