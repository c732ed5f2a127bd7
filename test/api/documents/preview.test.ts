import { expect } from 'chai';
import { previewWorkflowId } from '#src/contracts/workflow-ids.ts';
import { anUpload, readDocument, replaceOriginal } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { compoundFile, docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { type FakeGotenberg, startFakeGotenberg } from '#test/support/fake-document-services.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

const pages = [
  'The lease of the office begins in March and ends after ten years.',
  'The rent is due on the third working day of every month.',
];
const word = (...texts: string[]) => new Uint8Array(docxFile(texts.map((text) => docxParagraph(text)).join('')));

describe('the preview of an office file', () => {
  let own: Stack;
  let gotenberg: FakeGotenberg;
  let ada: Member;
  let shown: string;
  before(async () => {
    gotenberg = await startFakeGotenberg({ pages });
    own = await startStack({ GOTENBERG_URL: gotenberg.url });
    ada = await own.signUp();
    shown = await ingest('Lease of 2026.docx', word(...pages));
    await untilJob(ada, previewWorkflowId(shown, 1), 'succeeded');
  });
  after(async () => {
    // Must come first: on shutdown the worker waits 20 s for running activities, and one of them waits for Gotenberg.
    await gotenberg.close();
    await own.close();
  });

  async function ingest(name: string, content: Uint8Array<ArrayBuffer> | string, status = 'succeeded', as = ada) {
    const { id } = await anUpload(as, { name, content });
    await untilJob(as, `ingest-${id}-1`, status);
    return id;
  }
  const whyNot = async (id: string, as: ApiClient = ada): Promise<string> => {
    const { code, detail } = Object((await as.get(`/documents/${id}/preview`, 404)).body);
    expect(code).equal('preview_not_found');
    return detail;
  };

  it('is a PDF, sent with ranges (206) and revalidation (304); the chunks of the file have page numbers', async () => {
    const path = `/documents/${shown}/preview`;
    await untilJob(ada, `${previewWorkflowId(shown, 1)}.render`, 'succeeded');
    expect(await readDocument(ada, shown)).include({ has_preview_pdf: true, page_count: 2 });
    const { body, headers } = await ada.get(path, 200);
    expect(body).match(/^%PDF-1\.4.*The rent is due/s);
    expect(headers.get('content-type')).equal('application/pdf');
    expect(headers.get('content-disposition')).contain('Lease of 2026.pdf');
    expect((await ada.get(path, 206, { Range: 'bytes=1-3' })).body).equal('PDF');
    await ada.get(path, 304, { 'If-None-Match': headers.get('etag') ?? '' });
    await ada.get(path, 416, { Range: 'bytes=1000000-' });
  });

  it('is rendered once for all documents of equal content; its URL works until the document is deleted', async () => {
    gotenberg.answer({ pages });
    const texts = word(...pages, 'Of which there are two.');
    const first = await ingest('a.docx', texts);
    await untilJob(ada, previewWorkflowId(first, 1), 'succeeded');
    const second = await ingest('b.docx', texts);
    expect(await readDocument(ada, second)).include({ has_preview_pdf: true });
    await untilJob(ada, previewWorkflowId(second, 1), 'succeeded');
    expect(gotenberg.files).length(1);

    const { url } = Object((await ada.get(`/documents/${second}/download-url?preview=true`, 200)).body);
    expect(await (await fetch(url)).text()).match(/^%PDF/);
    await ada.delete(`/documents/${second}`, 204);
    expect((await fetch(url)).status).equal(404);
    await ada.get(`/documents/${first}/preview`, 200);
  });

  it('is answered with 404 and the reason while there is no preview', async () => {
    expect(await whyNot(await ingest('note.txt', 'A note.'))).equal('Only office files have previews.');

    gotenberg.answer('hang');
    const slow = await ingest('a.docx', word('Something that takes long to print.'));
    expect(await whyNot(slow)).equal('It is being made.');
    expect(await readDocument(ada, slow)).include({ has_preview_pdf: false, page_count: 1 });

    gotenberg.answer({ status: 400, text: 'no' });
    const failing = await ingest('a.docx', word('Something that cannot be printed.'));
    const { last_error } = await untilJob(ada, previewWorkflowId(failing, 1), 'failed');
    expect(last_error).include({ code: 'corrupt_document' });
    expect(await whyNot(failing)).match(/^It could not be made\. Gotenberg cannot open/);
    // A process that has no renderer knows the outcome, too.
    const { GOTENBERG_URL: _, ...settings } = own.settings;
    const other = await startStack(settings, { workers: false });
    expect(await whyNot(failing, ada.at(other.baseUrl)).finally(other.close)).contain('It could not be made.');
    await replaceOriginal(ada, failing, { name: 'b.docx', content: word('What took its place.') }, { ingest: 'false' });
    expect(await whyNot(failing)).equal('It is made once the document is ingested.');

    const half = await ingest('half.docx', word(...pages).subarray(0, 300), 'failed');
    expect(await whyNot(half)).match(/^The document could not be ingested\. ./);
  });

  it('is the source of the text of an old presentation (ppt), with one page for each slide', async () => {
    gotenberg.answer({ pages });
    const id = await ingest('talk.ppt', new Uint8Array(compoundFile({ 'PowerPoint Document': 'slides' })));
    await untilJob(ada, previewWorkflowId(id, 1), 'succeeded');
    const content = pages.join('\n\n');
    expect(await readDocument(ada, id)).include({
      source_format: 'ppt',
      page_count: 2,
      has_preview_pdf: true,
      content,
    });
  });

  it('does not exist without a renderer, so that old presentations (ppt) cannot be ingested', async () => {
    const bob = await (await stack()).signUp('Bob');
    const id = await ingest('a.docx', word(...pages), 'succeeded', bob);
    expect(await whyNot(id, bob)).contain('no office program');
    await bob.get(`/jobs/${previewWorkflowId(id, 1)}`, 404);
    const slides = new Uint8Array(compoundFile({ 'PowerPoint Document': 'slides' }));
    const refused = await ingest('talk.ppt', slides, 'failed', bob);
    expect((await readDocument(bob, refused)).last_error).include({ code: 'converter_unavailable' });
  });

  it('stops rendering once its document is replaced or deleted, and leaves nothing behind', async () => {
    gotenberg.answer({ pages });
    const eve = await own.signUp('Eve');
    const printed = await ingest('a.docx', word('What was printed.'), 'succeeded', eve);
    await untilJob(eve, previewWorkflowId(printed, 1), 'succeeded');
    gotenberg.answer('hang');
    const replaced = await ingest('a.docx', word('What is replaced while it is printed.'), 'succeeded', eve);
    await until('it is printed', async () => gotenberg.files.length === 1);
    await replaceOriginal(eve, replaced, { name: 'b.txt', content: 'A note.' });
    await untilJob(eve, previewWorkflowId(replaced, 1), 'cancelled');
    const deleted = await ingest('a.docx', word('What goes while it is printed.'), 'succeeded', eve);
    await until('it is printed', async () => gotenberg.files.length === 2);
    for (const id of [printed, deleted]) {
      await eve.delete(`/documents/${id}`, 204);
      await untilJob(eve, `delete-${id}`, 'succeeded');
    }
    await untilJob(eve, `ingest-${replaced}-2`, 'succeeded');
    const stored = await own.container.blobs.list({ after: null, limit: 1_000 });
    expect(
      stored.filter(({ key }) => key.startsWith(eve.orgId)),
      'the note',
    ).length(1);
    await expectStoresMatch(own);
  });
});
