import { expect } from 'chai';
import { createGotenbergRenderer } from '#src/adapters/pdf-renderer/pdf-renderer.ts';
import { createPreviewsService } from '#src/modules/previews/previews.service.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { type FakeGotenberg, startFakeGotenberg } from '#test/support/fake-document-services.ts';
import { uploadFile } from '#test/support/ingestion-steps.ts';
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
  let ada: Awaited<ReturnType<Stack['signUp']>>;
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

  /** Creates a document that is converted but not chunked. `more` makes its text differ from others. */
  async function convert(more: string) {
    const content = new Uint8Array(docxFile([...pages, more].map((text) => docxParagraph(text)).join('')));
    const of = await uploadFile(ada, content, { name: 'a.docx', target_tokens: '14' });
    await own.container.ingestion.parse(of, step);
    await own.container.ingestion.convert(of, step);
    return of;
  }
  type Converted = Awaited<ReturnType<typeof convert>>;
  const pageNumbers = async ({ documentId }: Converted): Promise<number[]> =>
    own.container.db('chunks').where({ documentId }).orderBy('chunkIndex').pluck('page_number');
  async function previewsOf({ documentId }: Converted) {
    const { blobKey } = await own.container.db('documents').where({ id: documentId }).first('blobKey');
    return own.container.db('previews').where({ originalKey: blobKey });
  }
  const keysOfStore = async () => (await own.container.blobs.list({ after: null, limit: 1_000 })).map(({ key }) => key);

  /** The service with some of its parts replaced. */
  function serviceWith(parts: Partial<Parameters<typeof createPreviewsService>[0]>) {
    const renderer = { version: 'gotenberg 1', render: createGotenbergRenderer(gotenberg).render };
    return createPreviewsService({ ...own.container, renderer, ...parts });
  }

  it('make one preview when an activity runs twice, also concurrently', async () => {
    const { previews } = own.container;
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

  it('make no preview that would exceed the storage quota, also when several previews are made at once', async () => {
    const of = await convert('One too many.');
    gotenberg.answer({ pages: [...pages, 'Not stored before.'] });
    const keys = await keysOfStore();
    const full = { ...own.config.tierLimits.free, storageBytes: 10 };
    const service = serviceWith({ limits: { of: async () => full } });
    expect(await appErrorCode(service.render(of, step))).equal('storage_quota_exceeded');
    expect(await previewsOf(of)).deep.equal([]);
    expect(await keysOfStore()).deep.equal(keys);
  });

  it('give page numbers to chunks that are stored before or after the pages are found', async () => {
    const { previews, ingestion } = own.container;
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
    const { previews, db, blobs, originals } = own.container;
    // Equal PDFs are one object.
    gotenberg.answer({ pages: [...pages, 'The first time.'] });
    const of = await convert('Made anew.');
    await previews.render(of, step);
    const [{ blobKey: old, originalKey }] = await previewsOf(of);
    await db('previews').where({ originalKey }).update({ rendererVersion: 'typewriter 1' });
    gotenberg.answer({ pages: [...pages, 'A third page.'] });
    expect(await previews.render(of, step)).include({ reused: false });
    const [{ blobKey, rendererVersion }] = await previewsOf(of);
    expect(rendererVersion).equal('gotenberg 1');
    await originals.sweepExpired();
    expect([await blobs.exists(blobKey), await blobs.exists(old)]).deep.equal([true, false]);

    await blobs.delete(blobKey);
    expect(await previews.render(of, step)).include({ reused: false });
    expect(await blobs.exists((await previewsOf(of))[0].blobKey)).equal(true);
  });

  it('do nothing if the document has another original or is deleted', async () => {
    const { previews, deletion } = own.container;
    const of = await convert('Replaced.');
    const form = { method: 'PATCH', fields: { ingest: 'false' } } as const;
    await ada.upload(`/documents/${of.documentId}`, { name: 'b.txt', content: 'b' }, 200, form);
    expect(await previews.render(of, step)).equal(null);
    expect(await previews.alignPages(of, step)).equal(null);
    await ada.delete(`/documents/${of.documentId}`, 204);
    expect(await previews.render(of, step)).equal(null);
    await deletion.deleteOriginal(of);
    await deletion.forgetDocument(of);
    await expectStoresMatch(own);
  });

  it('store nothing if the original is deleted during rendering', async () => {
    const { deletion, originals } = own.container;
    const of = await convert('Gone meanwhile.');
    gotenberg.answer({ pages: [...pages, 'Of a deleted document.'] });
    const keys = await keysOfStore();
    const { render } = createGotenbergRenderer(gotenberg);
    const renderer = {
      version: 'gotenberg 1',
      render: async (input: Parameters<typeof render>[0]) => {
        await render(input);
        await ada.delete(`/documents/${of.documentId}`, 204);
        await deletion.deleteOriginal(of);
      },
    };
    expect(await serviceWith({ renderer }).render(of, step)).equal(null);
    await originals.sweepExpired();
    expect(keys).include.members(await keysOfStore());
    await deletion.forgetDocument(of);
    await expectStoresMatch(own);
  });

  it('fail if the output of the renderer is no PDF', async () => {
    const of = await convert('Printed wrongly.');
    for (const text of ['<html>not pdf</html>', '%PDF-1.4\ngarbage', '%PDF-1.4\ngarbage\n%%EOF']) {
      gotenberg.answer({ status: 200, text });
      expect(await appErrorCode(own.container.previews.render(of, step)), text).equal('converter_refused');
    }
    expect(await previewsOf(of)).deep.equal([]);
  });

  it('fail with converter_unavailable if no renderer is installed, and are not queued for new documents then', async () => {
    const of = await convert('No program.');
    const service = serviceWith({ renderer: null });
    expect(await appErrorCode(service.render(of, step))).equal('converter_unavailable');
    expect(await own.container.db.transaction((trx) => service.enqueue(trx, of, 'docx'))).equal(null);
  });
});
