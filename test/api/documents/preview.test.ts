import { expect } from 'chai';
import { previewWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createPreviewsService } from '#src/modules/previews/previews.service.ts';
import type { Member } from '#test/support/client.ts';
import { compoundFile } from '#test/support/compound-file.ts';
import { docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { type FakeGotenberg, startFakeGotenberg } from '#test/support/fake-gotenberg.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

const pages = [
  'The lease of the office begins in March and ends after ten years.',
  'The rent is due on the third working day of every month.',
];
const word = (texts: readonly string[]) => new Uint8Array(docxFile(texts.map((text) => docxParagraph(text)).join('')));

describe('GET /documents/{document_id}/preview', () => {
  let own: Stack;
  let gotenberg: FakeGotenberg;
  let ada: Member;
  /** Creates a document and waits for its preview. */
  let shown: string;
  before(async () => {
    gotenberg = await startFakeGotenberg({ pages });
    own = await startStack({ GOTENBERG_URL: gotenberg.url });
    ada = await own.signUp();
    shown = await uploadWord();
    await untilJob(ada, previewWorkflowId(shown, 1), 'succeeded');
  });
  after(async () => {
    // Must come first: on shutdown the worker waits 20 s for running activities, and one of them waits for Gotenberg.
    await gotenberg.close();
    await own.close();
  });

  async function upload(name: string, content: Uint8Array<ArrayBuffer> | string): Promise<string> {
    const { id } = fullDocumentSchema.parse((await ada.upload('/documents', { name, content }, 201)).body);
    return id;
  }
  async function uploadWord(texts: readonly string[] = pages): Promise<string> {
    const id = await upload('Lease of 2026.docx', word(texts));
    await untilJob(ada, `ingest-${id}-1`, 'succeeded');
    return id;
  }
  const show = async (id: string) => fullDocumentSchema.parse((await ada.get(`/documents/${id}`, 200)).body);
  const whyNot = async (client: Member, id: string) =>
    Object(await client.get(`/documents/${id}/preview`, 404)).body as { code: string; detail: string };

  it('200: returns the PDF once it is rendered; the document and its chunks then have page numbers', async () => {
    const id = shown;
    await untilJob(ada, `${previewWorkflowId(id, 1)}.render`, 'succeeded');
    expect(await show(id)).include({ has_preview_pdf: true, page_count: 2 });
    const { items } = Object((await ada.get('/documents?limit=1', 200)).body);
    expect(items[0]).include({ id, has_preview_pdf: true, page_count: 2 });

    const { body, headers } = await ada.get(`/documents/${id}/preview`, 200);
    expect(body).match(/^%PDF-1\.4.*The rent is due/s);
    expect(headers.get('content-type')).equal('application/pdf');
    expect(headers.get('content-disposition')).contain('Lease of 2026.pdf');
    await ada.get(`/documents/${id}/preview`, 304, { 'If-None-Match': headers.get('etag') ?? '' });
  });

  it('206: returns the requested range', async () => {
    const { body } = await ada.get(`/documents/${shown}/preview`, 206, { Range: 'bytes=1-3' });
    expect(body).equal('PDF');
  });

  it('403: rejects the preview of an original in which the malware scanner has found something', async () => {
    const id = await uploadWord(['What is found to be harmful.']);
    const { db } = own.container;
    const { contentSha256: sha256 } = await db('documents').where({ id }).first('contentSha256');
    await db('documents')
      .where({ id })
      .update({ malware: JSON.stringify({ sha256, signature: 'Test' }) });
    expect((await ada.get(`/documents/${id}/preview`, 403)).body).include({ code: 'malware_found' });
  });

  it('200: returns the PDF by a URL without a token, until the document is deleted', async () => {
    const id = await uploadWord();
    await untilJob(ada, previewWorkflowId(id, 1), 'succeeded');
    const { url } = Object((await ada.get(`/documents/${id}/download-url?preview=true`, 200)).body);
    expect(await (await fetch(url)).text()).match(/^%PDF/);
    await ada.delete(`/documents/${id}`, 204);
    expect((await fetch(url)).status).equal(404);
  });

  it('200: renders equal content once for all its documents', async () => {
    gotenberg.answer({ pages });
    const texts = [...pages, 'Of which there are two.'];
    const first = await uploadWord(texts);
    await untilJob(ada, previewWorkflowId(first, 1), 'succeeded');
    const second = await uploadWord(texts);
    expect(await show(second)).include({ has_preview_pdf: true });
    await untilJob(ada, previewWorkflowId(second, 1), 'succeeded');
    expect(gotenberg.files).length(1);
  });

  it('401: rejects a request without a token', async () => {
    await own.anonymous.get(`/documents/${shown}/preview`, 401);
  });

  it('404: rejects a caller who may not read the document', async () => {
    expect(await whyNot(await own.signUp('Eve'), shown)).include({ code: 'document_not_found' });
  });

  it('404: says why there is no preview', async () => {
    const text = await upload('note.txt', 'A note.');
    expect(await whyNot(ada, text)).include({ code: 'preview_not_found', detail: 'Only office files have previews.' });

    gotenberg.answer('hang');
    const slow = await uploadWord(['Something that takes long to print.']);
    expect((await whyNot(ada, slow)).detail).equal('It is being made.');
    expect(await show(slow)).include({ has_preview_pdf: false, page_count: 1 });

    gotenberg.answer({ status: 400, text: 'no' });
    const failing = await uploadWord(['Something that cannot be printed.']);
    const { last_error } = await untilJob(ada, previewWorkflowId(failing, 1), 'failed');
    expect(last_error).include({ code: 'corrupt_document' });
    expect((await whyNot(ada, failing)).detail).match(/^It could not be made\. Gotenberg cannot open/);

    const without = await stack();
    const bob = await without.signUp('Bob');
    const form = { name: 'a.docx', content: word(pages) };
    const { id } = fullDocumentSchema.parse((await bob.upload('/documents', form, 201)).body);
    await untilJob(bob, `ingest-${id}-1`, 'succeeded');
    expect((await whyNot(bob, id)).detail).contain('no office program');
    expect((await bob.get(`/jobs/${previewWorkflowId(id, 1)}`, 404)).body).include({ code: 'job_not_found' });
  });

  it('404: reports the outcome for this original, whichever programs the answering process has', async () => {
    gotenberg.answer({ status: 400, text: 'no' });
    const id = await uploadWord(['Something that cannot be printed either.']);
    await untilJob(ada, previewWorkflowId(id, 1), 'failed');
    const withoutProgram = createPreviewsService({ ...own.container, renderer: null });
    const document = await own.container.db('documents').where({ id }).first();
    const failure = await withoutProgram.get(document).catch((error: unknown) => error);
    expect(failure)
      .property('message')
      .match(/^It could not be made\./);

    const form = { method: 'PATCH', fields: { ingest: 'false' } } as const;
    await ada.upload(`/documents/${id}`, { name: 'b.docx', content: word(['What took its place.']) }, 200, form);
    expect((await whyNot(ada, id)).detail).equal('It is made once the document is ingested.');
  });

  it('404: gives the ingestion error if that is why there is no preview', async () => {
    const id = await upload('half.docx', word(pages).subarray(0, 300));
    const { last_error } = await untilJob(ada, `ingest-${id}-1`, 'failed');
    expect((await whyNot(ada, id)).detail).equal(`The document could not be ingested. ${last_error?.message}`);
  });

  it('416: rejects a range behind the end', async () => {
    await ada.get(`/documents/${shown}/preview`, 416, { Range: 'bytes=1000000-' });
  });

  it('reads an old presentation slide by slide if a renderer is available', async () => {
    gotenberg.answer({ pages });
    const slides = new Uint8Array(compoundFile({ 'PowerPoint Document': 'slides' }));
    const id = await upload('talk.ppt', slides);
    await untilJob(ada, `ingest-${id}-1`, 'succeeded');
    await untilJob(ada, previewWorkflowId(id, 1), 'succeeded');
    const { content, ...document } = await show(id);
    expect(document).include({ source_format: 'ppt', page_count: 2, has_preview_pdf: true });
    expect(content).equal(pages.join('\n\n'));

    const without = await stack();
    const bob = await without.signUp('Bob');
    const uploaded = await bob.upload('/documents', { name: 'talk.ppt', content: slides }, 201);
    const refused = fullDocumentSchema.parse(uploaded.body).id;
    const { last_error } = await untilJob(bob, `ingest-${refused}-1`, 'failed');
    expect(last_error).include({ code: 'converter_unavailable' });
    await bob.get(`/documents/${refused}/file`, 200);
  });

  it('stops rendering a replaced original', async () => {
    gotenberg.answer('hang');
    const id = await uploadWord(['What is replaced while it is printed.']);
    await until('it is printed', async () => gotenberg.files.length > 0);
    await ada.upload(`/documents/${id}`, { name: 'b.txt', content: 'A note.' }, 200, { method: 'PATCH' });
    await untilJob(ada, previewWorkflowId(id, 1), 'cancelled');
  });

  it('leaves nothing behind when its document is replaced or deleted, even while it is rendered', async () => {
    gotenberg.answer({ pages });
    const id = await uploadWord(['What will be replaced.']);
    await untilJob(ada, previewWorkflowId(id, 1), 'succeeded');
    const form = { method: 'PATCH' } as const;
    await ada.upload(`/documents/${id}`, { name: 'b.docx', content: word(['What took its place.']) }, 200, form);
    await untilJob(ada, previewWorkflowId(id, 2), 'succeeded').catch(() => undefined);
    await until('the new one is shown', async () => (await show(id)).has_preview_pdf);
    gotenberg.answer('hang');
    const slow = await uploadWord(['What goes while it is printed.']);
    await until('it is printed', async () => gotenberg.files.length > 0);
    for (const gone of [id, slow]) {
      await ada.delete(`/documents/${gone}`, 204);
      await untilJob(ada, `delete-${gone}`, 'succeeded');
    }
    const left = own.container
      .db('previews')
      .whereRaw('not exists (select from documents d where d.blob_key = original_key)');
    expect(await left).deep.equal([]);
    await expectStoresMatch(own);
  });
});
