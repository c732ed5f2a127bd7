import { expect } from 'chai';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { contentDigest } from '#test/support/content-digest.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('ingesting a small document in one activity', () => {
  let own: Stack;
  let ada: Member;

  before(async () => {
    // Without workers, which would run the steps, too.
    own = await startStack({}, { workers: false });
    ada = await own.signUp();
  });
  after(() => own.close());

  const step = { signal: new AbortController().signal, report: () => undefined };
  const sentences = (count: number) =>
    Array.from({ length: count }, (_, index) => `Sentence ${index} says something.`).join(' ');

  async function upload(content: string, name = 'note.txt'): Promise<IngestDocumentInput> {
    const fields = { target_tokens: '12', overlap_tokens: '0' };
    const { body } = await ada.upload('/documents', { name, content }, 201, { fields });
    return { orgId: ada.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
  }
  const ingestAtOnce = (of: IngestDocumentInput) => own.container.ingestion.atOnce(of, step);

  it('leaves the same state as the separate steps, also when it runs twice', async () => {
    const { ingestion, db } = own.container;
    const [stepwise, whole] = [await upload(sentences(20)), await upload(sentences(20))];
    await ingestion.parse(stepwise, step);
    await ingestion.convert(stepwise, step);
    await ingestion.chunk(stepwise, step);
    await ingestion.embed(stepwise, step);
    await ingestion.activate(stepwise, step);

    expect(await ingestAtOnce(whole)).include({ isDone: true });
    const digest = await contentDigest(db, whole.documentId);
    expect(digest).equal(await contentDigest(db, stepwise.documentId));
    await ingestAtOnce(whole);
    expect(await contentDigest(db, whole.documentId)).equal(digest);
    const job = await db('jobs').where({ documentId: whole.documentId }).first();
    expect(job).include({ status: 'succeeded', stage: 'activate' });
    expect(job.progressDone).equal(job.progressTotal).above(1);
  });

  it('stops after chunking when the document has more chunks than its size suggested', async () => {
    // Each is four bytes and four tokens.
    const { chunksTotal, isDone } = await ingestAtOnce(await upload('🜁 '.repeat(600)));
    expect(isDone).equal(false);
    expect(chunksTotal).above(64);
  });

  it('stops before converting a format that needs a parser, whatever the file name says', async () => {
    const page = '<!doctype html><html><body><p>It is a page.</p></body></html>';
    const outcome = await ingestAtOnce(await upload(page, 'page.txt'));
    expect(outcome).deep.equal({ converted: null, chunksTotal: null, isDone: false });
  });

  it('fails with the error code of the step that failed', async () => {
    expect(await appErrorCode(ingestAtOnce(await upload(' \n ')))).equal('empty_document');
  });
});
