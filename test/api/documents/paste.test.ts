import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { aColleague, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const note = { name: 'Note', content: 'Received: by hand\n\nThe fox is quick.', source_format: 'text' };

describe('POST /documents/paste', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('201: creates a document of the text in the format that its author states', async () => {
    const { body } = await ada.post('/documents/paste', { ...note, content: '<html><p>Not a page.</p>' }, 201);
    const { id } = fullDocumentSchema.parse(body);
    const ingested = await until('it is embedded', async () => {
      const document = fullDocumentSchema.parse((await ada.get(`/documents/${id}`, 200)).body);
      return document.embedding_complete ? document : undefined;
    });
    expect(ingested.source_format).to.equal('text');
    expect(ingested.content).to.contain('Not a page.');
  });

  it('401: rejects a request without a token', async () => {
    await shared.anonymous.post('/documents/paste', note, 401);
  });

  it('403: rejects a read-only folder', async () => {
    const grace = await aColleague(shared, ada);
    await grace.post('/documents/paste', { ...note, target_folder_id: await rootOf(ada, 'org_root') }, 403);
  });

  it('404: rejects an unknown folder and keeps no file', async () => {
    const grace = await shared.signUp('Grace');
    await grace.post('/documents/paste', { ...note, target_folder_id: crypto.randomUUID() }, 404);
    const files = readdir(join(shared.config.dataDir, 'blobs', 'objects', grace.orgId));
    expect(await files.catch((): string[] => [])).to.deep.equal([]);
  });

  itHoldsTheLimit('document_limit_reached', async (member) => () => post(member, '/documents/paste', note));

  it('422: rejects blank text, another format, control characters and unknown fields', async () => {
    for (const wrong of [
      { content: ' \n' },
      { content: 'a\0b' },
      { source_format: 'pdf' },
      { name: '' },
      { name: 'two\nlines' },
      { name: 'x'.repeat(256) },
      { tags: [] },
    ]) {
      await ada.post('/documents/paste', { ...note, ...wrong }, 422);
    }
  });
});
