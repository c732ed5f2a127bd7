import { writeFile } from 'node:fs/promises';
import { expect } from 'chai';
import { createPreviewsService } from '#src/modules/previews/previews.service.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { replaceOriginal } from '#test/support/builders.ts';
import { docxFile, docxParagraph, pdfFile } from '#test/support/document-fixtures.ts';
import { uploadFile } from '#test/support/ingestion-steps.ts';
import { useIdleStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';

const pages = [
  'The lease of the office begins in March and ends after ten years.',
  'The rent is due on the third working day of every month.',
];
const pdfOf = (...texts: string[]) => pdfFile(texts.map((text) => [{ text, x: 50, y: 700 }]));
const step = { signal: new AbortController().signal, report: () => undefined };

describe('preview activities', () => {
  const own = useIdleStack();
  let printed: string | Buffer;
  beforeEach(() => {
    printed = pdfOf(...pages);
  });
  const renderer = {
    version: 'printer 1',
    render: async ({ pdfPath }: { pdfPath: string }) => writeFile(pdfPath, printed),
  };
  const serviceWith = (parts: Partial<Parameters<typeof createPreviewsService>[0]> = {}) =>
    createPreviewsService({ ...own.container, renderer, ...parts });

  /** Creates a document that is converted but not chunked. `more` makes its text differ from others. */
  async function convert(more: string) {
    const content = new Uint8Array(docxFile([...pages, more].map((text) => docxParagraph(text)).join('')));
    const of = await uploadFile(own.ada, content, { name: 'a.docx', target_tokens: '14' });
    await own.container.ingestion.parse(of, step);
    await own.container.ingestion.convert(of, step);
    return of;
  }
  type Converted = Awaited<ReturnType<typeof convert>>;
  const pageNumbers = async ({ documentId }: Converted): Promise<number[]> =>
    own.db('chunks').where({ documentId }).orderBy('chunkIndex').pluck('page_number');
  async function previewsOf({ documentId }: Converted) {
    const { blobKey } = await own.db('documents').where({ id: documentId }).first('blobKey');
    return own.db('previews').where({ originalKey: blobKey });
  }

  it('make one preview when an activity runs twice, also concurrently', async () => {
    const previews = serviceWith();
    const of = await convert('Run twice.');
    const [one, other] = await Promise.all([previews.render(of, step), previews.render(of, step)]);
    expect(one?.sizeBytes).equal(other?.sizeBytes).above(0);
    expect(await previews.render(of, step)).include({ reused: true });
    expect(await previewsOf(of)).length(1);
    for (let times = 0; times < 2; times += 1) {
      expect(await previews.alignPages(of, step)).deep.equal({ pageCount: 2 });
    }
    await expectStoresMatch(own);
  });

  it('make no preview that would exceed the storage quota', async () => {
    const of = await convert('One too many.');
    printed = pdfOf('Not stored before.');
    const full = { ...own.config.tierLimits.free, storageBytes: 10 };
    const service = serviceWith({ limits: { of: async () => full } });
    expect(await appErrorCode(service.render(of, step))).equal('storage_quota_exceeded');
    expect(await previewsOf(of)).deep.equal([]);
    await expectStoresMatch(own);
  });

  it('give page numbers to chunks that are stored before or after the pages are found', async () => {
    const [previews, { ingestion }] = [serviceWith(), own.container];
    const early = await convert('Cut before.');
    await ingestion.chunk(early, step);
    expect(await pageNumbers(early)).deep.equal([1, 1, 1]);
    const late = await convert('Cut after.');
    for (const each of [early, late]) {
      await previews.render(each, step);
      await previews.alignPages(each, step);
    }
    await ingestion.chunk(late, step);
    for (const each of [early, late]) expect(await pageNumbers(each)).deep.equal([1, 2, 2]);
  });

  it('render again after a change of the renderer or the loss of the PDF file, and delete the old preview', async () => {
    const [previews, { db, blobs, originals }] = [serviceWith(), own.container];
    // Equal PDFs are one object.
    printed = pdfOf('The first time.');
    const of = await convert('Made anew.');
    await previews.render(of, step);
    const [{ blobKey: old, originalKey }] = await previewsOf(of);
    await db('previews').where({ originalKey }).update({ rendererVersion: 'typewriter 1' });
    printed = pdfOf('The second time.');
    expect(await previews.render(of, step)).include({ reused: false });
    const [{ blobKey, rendererVersion }] = await previewsOf(of);
    expect(rendererVersion).equal('printer 1');
    await originals.sweepExpired();
    expect([await blobs.exists(blobKey), await blobs.exists(old)]).deep.equal([true, false]);

    await blobs.delete(blobKey);
    expect(await previews.render(of, step)).include({ reused: false });
    expect(await blobs.exists((await previewsOf(of))[0].blobKey)).equal(true);
  });

  it('store nothing if the document gets another original or is deleted, also during rendering', async () => {
    const { deletion, originals } = own.container;
    const remove = async (of: Converted) => {
      await own.ada.delete(`/documents/${of.documentId}`, 204);
      await deletion.deleteOriginal(of);
    };
    const replaced = await convert('Replaced.');
    await replaceOriginal(own.ada, replaced.documentId, { name: 'b.txt', content: 'b' }, { ingest: 'false' });
    const deleted = await convert('Gone.');
    await remove(deleted);
    for (const gone of [replaced, deleted]) {
      expect(await serviceWith().render(gone, step)).equal(null);
      expect(await serviceWith().alignPages(gone, step)).equal(null);
    }

    const vanishing = await convert('Gone meanwhile.');
    printed = pdfOf('Of a deleted document.');
    const render: typeof renderer.render = async (file) => {
      await renderer.render(file);
      await remove(vanishing);
    };
    expect(await serviceWith({ renderer: { ...renderer, render } }).render(vanishing, step)).equal(null);
    await originals.sweepExpired();
    for (const gone of [deleted, vanishing]) await deletion.forgetDocument(gone);
    await expectStoresMatch(own);
  });

  it('fail if the renderer makes no valid PDF or is not installed; without a renderer, no previews are queued', async () => {
    const of = await convert('Printed wrongly.');
    for (printed of ['<html>not pdf</html>', '%PDF-1.4\ngarbage', '%PDF-1.4\ngarbage\n%%EOF']) {
      expect(await appErrorCode(serviceWith().render(of, step)), printed).equal('converter_refused');
    }
    expect(await previewsOf(of)).deep.equal([]);
    const service = serviceWith({ renderer: null });
    expect(await appErrorCode(service.render(of, step))).equal('converter_unavailable');
    expect(await own.db.transaction((trx) => service.enqueue(trx, of, 'docx'))).equal(null);
  });
});
