import { availableParallelism } from 'node:os';
import { expect } from 'chai';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { jobListSchema, jobSchema, jobSummarySchema } from '#src/modules/jobs/jobs.schema.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { aFolder, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { docxFile } from '#test/support/document-fixtures.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';
import { type RunningWorkers, startWorkers } from '#workers/run.ts';

const FILES = 60;
const CORRUPT = 17;
/** The fair order starts after these: a worker takes as many tasks as it may run, and polls a few more. */
const AT_ONCE = 3 * Math.max(4, 2 * availableParallelism());

describe('bulk upload by one user', () => {
  let own: Stack;
  let workers: RunningWorkers | undefined;
  let ada: Member;
  let folderId: string;

  before(async () => {
    // Workers start once everything is queued, so that the fair order decides and not the speed.
    own = await startStack({}, { workers: false });
    await registerSearchAttributes(own.container.temporal);
    ada = await own.signUp();
    folderId = (await aFolder(ada, await rootOf(ada, 'personal_root'))).id;
  });
  after(async () => {
    await workers?.shutdown();
    await own.close();
  });

  async function upload(member: Member, name: string, content: string | Uint8Array<ArrayBuffer>, fields = {}) {
    const { body } = await member.upload('/documents', { name, content }, 201, { fields });
    const { id, parse_job_id } = fullDocumentSchema.parse(body);
    return { documentId: id, jobId: parseJobId(parse_job_id ?? '').workflowId };
  }

  const note = (index: number) => `# Note ${index}\n\nThe meeting of group ${index} is moved to room ${index + 100}.`;
  const damaged = new Uint8Array(docxFile('', { 'word/document.xml': '<w:docu' }));
  const summary = async () => jobSummarySchema.parse((await ada.get(`/jobs/summary?folder_id=${folderId}`, 200)).body);
  const untilNoneIsOpen = () =>
    until('all are over', async () => {
      const { queued, running } = await summary();
      return queued + running === 0;
    });

  async function listJobs() {
    const jobs = [];
    for (let cursor = ''; ; ) {
      const { body } = await ada.get(`/jobs?folder_id=${folderId}&limit=25${cursor}`, 200);
      const { items, next_cursor } = jobListSchema.parse(body);
      jobs.push(...items);
      if (next_cursor === null) return jobs;
      cursor = `&cursor=${next_cursor}`;
    }
  }

  it('ingests every file with its own job, does not delay another user, and fails only the broken file', async () => {
    const uploads = await Promise.all(
      Array.from({ length: FILES }, (_, index) => {
        const fields = { target_folder_id: folderId };
        return index === CORRUPT
          ? upload(ada, 'damaged.docx', damaged, fields)
          : upload(ada, `note-${index}.md`, note(index), fields);
      }),
    );
    expect(await summary()).include({ total: FILES, queued: FILES });
    const grace = await own.signUp('Grace');
    const single = await upload(grace, 'single.md', note(1_000));

    workers = startWorkers(own.container);
    await untilRun(grace, single.jobId, 'succeeded');
    await untilNoneIsOpen();

    expect(await summary()).include({ total: FILES, succeeded: FILES - 1, failed: 1 });
    const jobs = await listJobs();
    expect(jobs.map(({ id }) => id)).have.members(uploads.map(({ jobId }) => jobId));
    const failed = jobs.filter(({ status }) => status !== 'succeeded');
    expect(failed).length(1);
    expect(failed[0]).deep.include({ id: uploads[CORRUPT]?.jobId, status: 'failed', stage: 'convert' });
    expect(failed[0]?.last_error).include({ code: 'corrupt_document' });
    const { finished_at } = jobSchema.parse((await grace.get(`/jobs/${single.jobId}`, 200)).body);
    const before = jobs.filter((job) => (job.finished_at ?? '') < (finished_at ?? ''));
    expect(before).length.below(Math.min(AT_ONCE, FILES - 1));
  });

  it('retries all failed ingestions together and no others', async () => {
    const { body } = await ada.post('/jobs/retry', { folder_id: folderId }, 202);
    expect(body).deep.equal({ count: 1 });
    await untilNoneIsOpen();
    const jobs = await listJobs();
    expect(jobs.filter(({ attempt }) => attempt === 2).map(({ status }) => status)).deep.equal(['failed']);
    expect(jobs.filter(({ attempt, status }) => attempt === 1 && status === 'succeeded')).length(FILES - 1);
  });
});
