import { expect } from 'chai';
import {
  chunkInContextSchema,
  chunkingStatusSchema,
  chunkListSchema,
  embeddingStatusSchema,
} from '#src/modules/documents/chunks.schema.ts';
import { documentListSchema } from '#src/modules/documents/documents.schema.ts';
import { aColleague, aDocumentIn, anUpload, readDocument, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilRun } from '#test/support/until-job.ts';

const paragraphs = Array.from({ length: 30 }, (_, n) => `The fox of paragraph ${n} jumps over ${n + 1} lazy dogs.`);
const content = `# Foxes\n\n${paragraphs.join('\n\n')}`;

describe('reading documents', () => {
  let shared: Stack;
  before(async () => {
    shared = await stack();
  });

  it('shows an ingested document with its content, its chunks where they stand, and their counts', async () => {
    const ada = await shared.signUp();
    const { id } = await anUpload(ada, { name: 'foxes.md', content }, { target_tokens: '100' });
    await untilRun(ada, `ingest-${id}-1`, 'succeeded');
    const path = `/documents/${id}`;
    const document = await readDocument(ada, id);
    expect(document).include({ content, char_count: content.length, page_count: 1 });
    expect(document).include({ content_preview: content.slice(0, 280), embedding_job_id: `ingest-${id}-1.embed` });
    expect(document).include({ chunking_complete: true, embedding_complete: true });

    const { items } = chunkListSchema.parse((await ada.get(`${path}/chunks`, 200)).body);
    const { length } = items;
    expect(length).greaterThan(3);
    for (const [index, chunk] of items.entries()) {
      expect(chunk).include({ chunk_index: index, embedded: true });
      expect(chunk.token_count).within(1, 100);
      const inContext = chunkInContextSchema.parse((await ada.get(`/documents/chunks/${chunk.id}`, 200)).body);
      expect(inContext).include({ document_id: id, document_name: 'foxes.md', visibility: 'personal', page_number: 1 });
      expect(content.startsWith(inContext.content, inContext.content_offset)).equal(true);
    }
    const chunking = chunkingStatusSchema.parse((await ada.get(`${path}/chunking-status`, 200)).body);
    expect(chunking).include({ chunking_complete: true, chunk_count: length });
    const embedding = embeddingStatusSchema.parse((await ada.get(`${path}/embedding-status`, 200)).body);
    expect(embedding).include({ chunks_total: length, chunks_embedded: length });
  });

  describe('lists of documents', () => {
    let ada: Member;
    let grace: Member;
    before(async () => {
      ada = await shared.signUp();
      grace = await aColleague(shared, ada);
      const everybodys = await rootOf(ada, 'org_root');
      const first = await aDocumentIn(ada, everybodys, 'first.txt');
      await aDocumentIn(ada, await rootOf(ada, 'personal_root'), 'private.txt');
      await aDocumentIn(ada, everybodys, 'second.txt');
      await aDocumentIn(grace, await rootOf(grace, 'personal_root'), 'hers.txt');
      await ada.patch(`/documents/${first}`, { name: 'changed.txt' }, 200);
    });

    const list = async (path: string, member = ada) =>
      documentListSchema.parse((await member.get(`/documents${path}`, 200)).body);
    const names = async (path: string, member = ada) => (await list(path, member)).items.map(({ name }) => name);

    it('show each member what they may read, changed last first', async () => {
      const eve = await shared.signUp('Eve');
      for (const path of ['', '/recent']) {
        expect(await names(path), path).deep.equal(['changed.txt', 'second.txt', 'private.txt']);
        expect(await names(path, grace), path).deep.equal(['changed.txt', 'hers.txt', 'second.txt']);
        expect(await list(path, eve), path).deep.include({ items: [], total: 0 });
      }
    });

    it('are paged and count all documents, whatever the limit', async () => {
      for (const path of ['', '/recent']) {
        const page = await list(`${path}?limit=2`);
        expect(
          page.items.map(({ name }) => name),
          path,
        ).deep.equal(['changed.txt', 'second.txt']);
        expect(page, path).include({ total: 3, total_pages: 2, has_more: true });
      }
      expect(await names('?limit=2&offset=2')).deep.equal(['private.txt']);
      expect(await list('?limit=2&offset=2')).include({ total: 3, has_more: false });
    });

    it('are filtered by folder and by author, and omit deleted documents', async () => {
      const personal = await rootOf(ada, 'personal_root');
      const gone = await aDocumentIn(ada, personal, 'gone.txt');
      expect(await names(`?folder_id=${personal}`)).deep.equal(['gone.txt', 'private.txt']);
      await (await shared.signUp('Eve')).get(`/documents?folder_id=${personal}`, 404);
      expect(await list('/recent?mine=true')).include({ total: 4 });
      await ada.delete(`/documents/${gone}`, 204);
      expect(await list('/recent?mine=true')).include({ total: 3 });
      expect(await names('/recent?mine=true', grace)).deep.equal(['hers.txt']);
      expect(await list('/recent?mine=false', grace)).include({ total: 3 });
    });
  });
});
