import { expect } from 'chai';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { contentDigest } from '#test/support/content-digest.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('all steps of an ingestion at once', () => {
  let own: Stack;
  let ada: Member;

  before(async () => {
    // Without workers, so that nobody else takes the steps.
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
  const takeAll = (of: IngestDocumentInput) => own.container.ingestion.atOnce(of, step);

  it('leave what they leave one after the other, also when they run again', async () => {
    const { ingestion, db } = own.container;
    const [each, all] = [await upload(sentences(20)), await upload(sentences(20))];
    await ingestion.parse(each, step);
    await ingestion.convert(each, step);
    await ingestion.chunk(each, step);
    await ingestion.embed(each, step);
    await ingestion.activate(each, step);

    expect(await takeAll(all)).include({ isDone: true });
    const digest = await contentDigest(db, all.documentId);
    expect(digest).equal(await contentDigest(db, each.documentId));
    await takeAll(all);
    expect(await contentDigest(db, all.documentId)).equal(digest);
    const job = await db('jobs').where({ documentId: all.documentId }).first();
    expect(job).include({ status: 'succeeded', stage: 'activate' });
    expect(job.progressDone).equal(job.progressTotal).above(1);
  });

  it('end where it shows that the document is not small: it has more chunks than its size tells', async () => {
    // Four bytes and as many tokens each.
    const { chunksTotal, isDone } = await takeAll(await upload('🜁 '.repeat(600)));
    expect(isDone).equal(false);
    expect(chunksTotal).above(64);
  });

  it('end before anything is read that takes a parser, whatever its name was', async () => {
    const page = '<!doctype html><html><body><p>It is a page.</p></body></html>';
    const outcome = await takeAll(await upload(page, 'page.txt'));
    expect(outcome).deep.equal({ converted: null, chunksTotal: null, isDone: false });
  });

  it('fail with the code of the step that fails', async () => {
    expect(await appErrorCode(takeAll(await upload(' \n ')))).equal('empty_document');
  });
});
