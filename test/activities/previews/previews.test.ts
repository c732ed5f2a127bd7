import { tmpdir } from 'node:os';
import { expect } from 'chai';
import { createConverter } from '#src/adapters/converter/converter.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { createGotenbergRenderer } from '#src/adapters/pdf-renderer/pdf-renderer.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createPreviewsService } from '#src/modules/previews/previews.service.ts';
import type { PdfRenderer } from '#src/ports/documents.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { type FakeGotenberg, startFakeGotenberg } from '#test/support/fake-gotenberg.ts';
import { testServices } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';

const pages = [
  'The lease of the office begins in March and ends after ten years.',
  'The rent is due on the third working day of every month.',
];
const step = { signal: new AbortController().signal, report: () => undefined };

describe('preview activities', () => {
  let own: Stack;
  let gotenberg: FakeGotenberg;
  let ada: Member;
  before(async () => {
    gotenberg = await startFakeGotenberg({ pages });
    own = await startStack({ GOTENBERG_URL: gotenberg.url }, { workers: false });
    ada = await own.signUp();
  });
  after(async () => {
    await own.close();
    await gotenberg.close();
  });
  beforeEach(() => gotenberg.answer({ pages }));

  /** Creates a document that is converted but not chunked. */
  async function convert(more = '') {
    const texts = [...pages, ...(more === '' ? [] : [more])].map((text) => docxParagraph(text));
    const file = { name: 'a.docx', content: new Uint8Array(docxFile(texts.join(''))) };
    const fields = { target_tokens: '14', overlap_tokens: '0' };
    const { id } = fullDocumentSchema.parse((await ada.upload('/documents', file, 201, { fields })).body);
    const of = { orgId: ada.orgId, documentId: id, generation: 1 };
    await own.container.ingestion.parse(of, step);
    await own.container.ingestion.convert(of, step);
    return of;
  }
  const pageNumbers = async ({ documentId }: { documentId: string }): Promise<number[]> =>
    own.container.db('chunks').where({ documentId }).orderBy('chunkIndex').pluck('page_number');
  const previewsOf = ({ orgId }: { orgId: string }) => own.container.db('previews').where({ orgId });
  const keysOfStore = async () => (await own.container.blobs.list({ after: null, limit: 1_000 })).map(({ key }) => key);

  /** Activities with some methods of the renderer replaced. */
  function depsOver(render: PdfRenderer['render']) {
    const { db, blobs, originals, jobs, limits } = own.container;
    const converter = createConverter({
      sandbox: createParserSandbox('auto'),
      toolsDir: testServices().toolsDir,
      tempDir: tmpdir(),
    });
    const renderer: PdfRenderer = { version: 'gotenberg 1', render };
    return { db, blobs, originals, jobs, limits, converter, tempDir: tmpdir(), renderer };
  }
  const realRender: PdfRenderer['render'] = (input) => createGotenbergRenderer(gotenberg).render(input);

  it('make one preview when a step runs twice, also concurrently', async () => {
    const { previews } = own.container;
    const of = await convert('Run twice.');
    const before = (await previewsOf(of)).length;
    const both = await Promise.all([previews.render(of, step), previews.render(of, step)]);
    expect(both.map((result) => result?.sizeBytes)).deep.equal([both[0]?.sizeBytes, both[0]?.sizeBytes]);
    expect(await previews.render(of, step)).include({ reused: true });
    expect(await previewsOf(of)).length(before + 1);
    expect(await previews.alignPages(of, step)).deep.equal({ pageCount: 2 });
    expect(await previews.alignPages(of, step)).deep.equal({ pageCount: 2 });
    await expectStoresMatch(own);
  });

  it('makes no preview that exceeds the storage quota together with others', async () => {
    const of = await convert('One too many.');
    gotenberg.answer({ pages: [...pages, 'Not stored before.'] });
    const [keys, made] = [await keysOfStore(), await previewsOf(of)];
    const full = { ...own.config.tierLimits.free, storageBytes: 10 };
    const service = createPreviewsService({ ...depsOver(realRender), limits: { of: async () => full } });
    expect(await appErrorCode(service.render(of, step))).equal('storage_quota_exceeded');
    expect(await previewsOf(of)).deep.equal(made);
    expect(await keysOfStore()).deep.equal(keys);
  });

  it('numbers the pages of chunks that exist before and after the alignment', async () => {
    const { previews, ingestion } = own.container;
    const early = await convert('Cut before.');
    await ingestion.chunk(early, step);
    expect(await pageNumbers(early)).deep.equal([1, 1, 1]);
    await previews.render(early, step);
    await previews.alignPages(early, step);
    expect(await pageNumbers(early)).deep.equal([1, 2, 2]);

    const late = await convert('Cut after.');
    await previews.render(late, step);
    await previews.alignPages(late, step);
    await ingestion.chunk(late, step);
    expect(await pageNumbers(late)).deep.equal([1, 2, 2]);
  });

  it('renders again after a change of the renderer or a loss of the PDF, and deletes the old preview', async () => {
    const { previews, db, blobs } = own.container;
    // Equal PDFs are one object.
    gotenberg.answer({ pages: [...pages, 'The first time.'] });
    const of = await convert('Made anew.');
    await previews.render(of, step);
    const { blobKey: originalKey } = await db('documents').where({ id: of.documentId }).first('blobKey');
    const find = () => db('previews').where({ originalKey }).first();
    const { blobKey: old } = await find();
    await db('previews').where({ originalKey }).update({ rendererVersion: 'typewriter 1' });
    gotenberg.answer({ pages: [...pages, 'A third page.'] });
    expect(await previews.render(of, step)).include({ reused: false });
    expect(await find())
      .include({ rendererVersion: 'gotenberg 1' })
      .and.not.include({ blobKey: old });
    await own.container.originals.sweepExpired();
    expect(await keysOfStore()).not.include(old);

    await blobs.delete((await find()).blobKey);
    expect(await previews.render(of, step)).include({ reused: false });
    expect(await blobs.exists((await find()).blobKey)).equal(true);
  });

  it('keeps the preview until the last document with its original is deleted', async () => {
    const { previews, originals, db } = own.container;
    gotenberg.answer({ pages: [...pages, 'Of two documents.'] });
    const [one, other] = [await convert('Shared.'), await convert('Shared.')];
    await previews.render(one, step);
    expect(await previews.render(other, step)).include({ reused: true });
    const { blobKey: originalKey } = await db('documents').where({ id: one.documentId }).first('blobKey');
    const { blobKey } = await db('previews').where({ originalKey }).first('blobKey');
    for (const [{ documentId }, isLeft] of [
      [one, true],
      [other, false],
    ] as const) {
      await ada.delete(`/documents/${documentId}`, 204);
      await own.container.deletion.deleteOriginal({ orgId: ada.orgId, documentId });
      await own.container.deletion.forgetDocument({ orgId: ada.orgId, documentId });
      await originals.sweepExpired();
      expect((await keysOfStore()).includes(blobKey)).equal(isLeft);
    }
    expect(await db('previews').where({ originalKey })).deep.equal([]);
    await expectStoresMatch(own);
  });

  it('does nothing if the document is deleted or has another original', async () => {
    const { previews } = own.container;
    const of = await convert('Replaced.');
    const form = { method: 'PATCH', fields: { ingest: 'false' } } as const;
    await ada.upload(`/documents/${of.documentId}`, { name: 'b.txt', content: 'b' }, 200, form);
    expect(await previews.render(of, step)).equal(null);
    expect(await previews.alignPages(of, step)).equal(null);
    await ada.delete(`/documents/${of.documentId}`, 204);
    expect(await previews.render(of, step)).equal(null);
  });

  it('stores nothing if the original is deleted during rendering', async () => {
    const { deletion, originals } = own.container;
    const { generation, ...of } = await convert('Gone meanwhile.');
    const deps = depsOver(async (input) => {
      await realRender(input);
      await ada.delete(`/documents/${of.documentId}`, 204);
      await deletion.deleteOriginal(of);
    });
    expect(await createPreviewsService(deps).render({ ...of, generation }, step)).equal(null);
    await originals.sweepExpired();
    await deletion.forgetDocument(of);
    await expectStoresMatch(own);
  });

  const noPdfs = ['<html>not pdf</html>', '%PDF-1.4\ngarbage', '%PDF-1.4\ngarbage\n%%EOF'];
  for (const [index, text] of noPdfs.entries()) {
    it(`rejects output of the renderer that is no PDF: ${JSON.stringify(text)}`, async () => {
      const of = await convert(`Printed wrongly ${index}.`);
      const before = await previewsOf(of);
      gotenberg.answer({ status: 200, text });
      expect(await appErrorCode(own.container.previews.render(of, step))).equal('converter_refused');
      expect(await previewsOf(of)).deep.equal(before);
    });
  }

  it('tells who cannot print', async () => {
    const of = await convert('No program.');
    const service = createPreviewsService({ ...depsOver(realRender), renderer: null });
    expect(await appErrorCode(service.render(of, step))).equal('converter_unavailable');
    expect(await own.container.db.transaction((trx) => service.enqueue(trx, of, 'docx'))).equal(null);
  });
});
