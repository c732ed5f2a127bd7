import { expect } from 'chai';
import { deletionWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { anIngestedDocument, readDocument, replaceOriginal, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { remainsOf, tracesOf } from '#test/support/remains.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('DELETE /documents/{document_id}', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
  });

  it('hides the document at once, removes its data from all stores, and keeps only the jobs', async () => {
    const id = await anIngestedDocument(ada, 'Fox', 'The quick brown fox jumps over the lazy dog.');
    const traces = await tracesOf(shared, id);
    expect(await remainsOf(shared, traces)).length.greaterThan(6);
    const [chunk] = chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body).items;
    await ada.delete(`/documents/${id}`, 204);
    for (const path of ['', '/file', '/chunks', '/chunking-status', '/embedding-status']) {
      await ada.get(`/documents/${id}${path}`, 404);
    }
    await ada.get(`/documents/chunks/${chunk?.id}`, 404);
    await ada.delete(`/documents/${id}`, 404);
    expect((await ada.get('/documents', 200)).body).deep.include({ items: [], total: 0 });
    const { body } = await ada.get(`/folders/${await rootOf(ada, 'personal_root')}`, 200);
    expect(body).deep.include({ documents: [] });

    await untilJob(ada, deletionWorkflowId(id), 'succeeded');
    expect(await remainsOf(shared, traces)).deep.equal([]);
    expect(Object((await ada.get(`/jobs?document_id=${id}`, 200)).body).items).length(2);
    await untilRun(ada, `ingest-${id}-1`, 'succeeded');
  });

  it('removes what was made of a replaced original even before', async () => {
    const id = await anIngestedDocument(ada, 'Fox', 'The secret of the first original.');
    const { contents, orgId } = await tracesOf(shared, id);
    await replaceOriginal(ada, id, { name: 'fox.txt', content: 'What replaced it.' });
    await untilRun(ada, `ingest-${id}-2`, 'succeeded');
    const conversions = shared.container.db('conversions').where({ orgId }).whereIn('contentSha256', contents);
    expect(await conversions).deep.equal([]);
  });

  it('keeps content that another document shares', async () => {
    const content = 'Foxes of two documents are the same foxes.';
    const first = await anIngestedDocument(ada, 'One', content);
    const second = await anIngestedDocument(ada, 'Two', content);
    await ada.delete(`/documents/${first}`, 204);
    await untilJob(ada, deletionWorkflowId(first), 'succeeded');
    const kept = await remainsOf(shared, await tracesOf(shared, second));
    expect(kept).include.members(['conversions', 'embeddings', 'chunkVectors']);
    expect((await readDocument(ada, second)).content).equal(content);
  });
});
