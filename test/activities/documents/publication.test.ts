import { expect } from 'chai';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { appError } from '#src/errors.ts';
import type { PublishedGeneration, VectorStore } from '#src/ports/vector-store.ts';
import { rootOf } from '#test/support/builders.ts';
import { ingestionOn, uploadFile } from '#test/support/ingestion-steps.ts';
import { useIdleStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('publication of documents to the vector store', () => {
  const own = useIdleStack();
  let published: PublishedGeneration[];
  /** Replaces the Postgres store's `publish`, which does nothing. */
  let publish: VectorStore['publish'];

  before(() => {
    own.container.vectors.publish = (generation) => publish(generation);
  });
  beforeEach(accept);

  function accept(): void {
    published = [];
    publish = async (generation) => void published.push(generation);
  }
  async function ingest(): Promise<IngestDocumentInput> {
    const of = await ingestionOn(own).runAll(await uploadFile(own.ada, 'The canteen opens at nine.'));
    published.length = 0;
    return of;
  }
  async function setRrfK({ documentId }: IngestDocumentInput, rrfK: number): Promise<void> {
    const { config } = Object((await own.ada.get(`/rag/config/${documentId}`, 200)).body);
    const changed = { ...config, retrieval: { ...config.retrieval, rrf_k: rrfK } };
    await own.ada.put(`/rag/config/${documentId}`, changed, 200);
  }
  const publishedRrfK = () => published.map(({ retrievalSettings }) => JSON.parse(retrievalSettings).rrfK);
  const rowOf = (documentId: string) => own.db('documents').where({ id: documentId }).first();
  const isOutdated = async ({ documentId }: IngestDocumentInput) => (await rowOf(documentId)).pointsOutdatedAt !== null;
  /** A request may return before its publication has finished; no sweeper runs here. */
  const untilPublished = (of: IngestDocumentInput) =>
    until('the store has the newest state', async () => !(await isOutdated(of)));
  const sweep = () => own.container.documents.publishOutdated();
  const endLeases = () =>
    own.db('documents').whereNotNull('pointsLeasedUntil').update('pointsLeasedUntil', new Date(0));

  it('precedes the activation of a generation, and is repeated if access keys change in between', async () => {
    const seen: object[] = [];
    publish = async ({ documentId, acl }) => {
      seen.push({ acl, activeGeneration: (await rowOf(documentId)).activeGeneration });
      const documents = own.db('documents').where({ id: documentId });
      if (seen.length === 1) await documents.update({ acl: ['user:another'] });
    };
    const { documentId } = await ingest();
    expect(seen).deep.equal([
      { acl: [`user:${own.ada.userId}`], activeGeneration: null },
      { acl: ['user:another'], activeGeneration: null },
    ]);
    const { embeddingModel } = own.config.models;
    expect(await rowOf(documentId)).include({ activeGeneration: 1, activeEmbeddingModel: embeddingModel });
  });

  it('happens at once when the retrieval settings or the folder change, but not when the document is renamed', async () => {
    const of = await ingest();
    await setRrfK(of, 10);
    await untilPublished(of);
    expect(published).length(1);
    expect(published[0]).include({ documentId: of.documentId, generation: 1 });
    expect(JSON.parse(published[0]?.retrievalSettings ?? '')).include({ rrfK: 10, mode: 'hybrid' });
    const change = (fields: object) => own.ada.patch(`/documents/${of.documentId}`, fields, 200);
    await change({ target_folder_id: await rootOf(own.ada, 'org_root') });
    await untilPublished(of);
    expect(published[1]?.acl).include(`org:${own.ada.orgId}`);
    await change({ name: 'Renamed' });
    expect(published).length(2);
  });

  it('is repeated by the sweeper after an outage of the vector store, even if the store then refuses one document', async () => {
    const [refused, fine] = [await ingest(), await ingest()];
    const asked = new Set<string>();
    publish = async ({ documentId }) => {
      asked.add(documentId);
      throw appError('service_unavailable');
    };
    await Promise.all([setRrfK(refused, 11), setRrfK(fine, 11)]);
    await until('the store was asked about both', async () => asked.size === 2);
    asked.clear();
    await sweep();
    // The call may still arrive, so the lease prevents another one until it ends.
    expect(asked.size).equal(0);
    await endLeases();
    publish = async ({ documentId }) => {
      if (documentId === refused.documentId) throw appError('internal_error');
    };
    const failure = await sweep().catch((error: unknown) => error);
    expect(failure, 'the sweep reports the refusal').instanceOf(Error);
    expect(await Promise.all([refused, fine].map(isOutdated))).deep.equal([true, false]);
    accept();
    await endLeases();
    await sweep();
    expect(publishedRrfK()).deep.equal([11]);
    expect(await isOutdated(refused)).equal(false);
  });

  it('does not make a request wait for a vector store that does not respond', async () => {
    const of = await ingest();
    const { promise: silence, resolve: answer } = Promise.withResolvers<void>();
    publish = () => silence;
    await setRrfK(of, 15);
    expect(await isOutdated(of)).equal(true);
    answer();
    await untilPublished(of);
  });

  it('ends with the newest state when a document changes while an older state is published', async () => {
    const of = await ingest();
    publish = async (generation) => {
      published.push(generation);
      if (published.length === 1) await setRrfK(of, 13);
    };
    await setRrfK(of, 12);
    const isReleased = async () => (await rowOf(of.documentId)).pointsLeasedUntil === null;
    await until('the older state is published', async () => published.length === 1 && (await isReleased()));
    expect(await isOutdated(of)).equal(true);
    await sweep();
    expect(publishedRrfK()).deep.equal([12, 13]);
    expect(await isOutdated(of)).equal(false);
  });
});
