import { expect } from 'chai';
import type { Knex } from 'knex';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { appError } from '#src/errors.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import type { PublishedGeneration, VectorStore } from '#src/ports/vector-store.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('publication of documents to the vector store', () => {
  let own: Stack;
  let ada: Member;
  let db: Knex;
  let vectors: VectorStore;
  let published: PublishedGeneration[];
  /** Replaces the Postgres store's `publish`, which does nothing. */
  let publish: VectorStore['publish'];

  before(async () => {
    own = await startStack({}, { workers: false });
    ada = await own.signUp();
    ({ db, vectors } = own.container);
    vectors.publish = (generation) => publish(generation);
  });
  after(() => own.close());
  beforeEach(() => {
    published = [];
    publish = async (generation) => void published.push(generation);
  });

  async function ingest(): Promise<IngestDocumentInput> {
    const { body } = await ada.upload('/documents', { name: 'note.txt', content: 'The canteen opens at nine.' }, 201);
    const of = { orgId: ada.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
    const step = { signal: new AbortController().signal, report: () => undefined };
    const { ingestion } = own.container;
    await ingestion.parse(of, step);
    await ingestion.convert(of, step);
    await ingestion.chunk(of, step);
    await ingestion.embed(of, step);
    await ingestion.activate(of, step);
    return of;
  }
  async function setRrfK({ documentId }: IngestDocumentInput, rrfK: number): Promise<void> {
    const { body } = await ada.get(`/rag/config/${documentId}`, 200);
    const { config } = body as { config: { retrieval: object } };
    await ada.put(`/rag/config/${documentId}`, { ...config, retrieval: { ...config.retrieval, rrf_k: rrfK } }, 200);
  }
  const isOutdated = async ({ documentId }: IngestDocumentInput) =>
    (await db('documents').where({ id: documentId }).first('pointsOutdatedAt')).pointsOutdatedAt !== null;

  /** A request may return before its publication has finished; no sweeper runs here. */
  const untilPublished = (of: IngestDocumentInput) =>
    until('the store has the newest state', async () => !(await isOutdated(of)));
  const isLeased = async ({ documentId }: IngestDocumentInput) =>
    (await db('documents').where({ id: documentId }).first('pointsLeasedUntil')).pointsLeasedUntil !== null;
  /** Makes the store fail. @returns the documents that were published to it, filled as they come */
  function refuse(): Set<string> {
    const asked = new Set<string>();
    publish = async ({ documentId }) => {
      asked.add(documentId);
      throw appError('service_unavailable');
    };
    return asked;
  }

  const endLeases = () =>
    db('documents')
      .whereNotNull('pointsLeasedUntil')
      .update({ pointsLeasedUntil: db.raw("now() - interval '1 s'") });

  it('publishes a generation before readers see it', async () => {
    let activeThen: unknown = 'not published';
    publish = async ({ documentId }) => {
      activeThen = (await db('documents').where({ id: documentId }).first('activeGeneration')).activeGeneration;
    };
    const { documentId } = await ingest();
    expect(activeThen).equal(null);
    const row = await db('documents').where({ id: documentId }).first('activeGeneration', 'activeEmbeddingModel');
    expect(row).deep.equal({ activeGeneration: 1, activeEmbeddingModel: own.config.models.embeddingModel });
  });

  it('publishes again when access keys change before the activation', async () => {
    publish = async (generation) => {
      published.push(generation);
      if (published.length === 1) {
        await db('documents')
          .where({ id: generation.documentId })
          .update({ acl: ['user:another'] });
      }
    };
    await ingest();
    expect(published.map(({ acl }) => acl)).deep.equal([[`user:${ada.userId}`], ['user:another']]);
  });

  it('publishes a change of the settings at once', async () => {
    const of = await ingest();
    published = [];
    await setRrfK(of, 10);
    await untilPublished(of);
    expect(published.map(({ documentId, generation }) => ({ documentId, generation }))).deep.equal([
      { documentId: of.documentId, generation: 1 },
    ]);
    expect(JSON.parse(published[0]?.retrievalSettings ?? '')).include({ rrfK: 10, mode: 'hybrid' });
  });

  it('publishes a move at once', async () => {
    const of = await ingest();
    published = [];
    const { body } = await ada.get('/folders', 200);
    const roots = folderTreeNodeSchema.array().parse(body);
    const target = roots.find((folder) => folder.system_role === 'org_root');
    await ada.patch(`/documents/${of.documentId}`, { target_folder_id: target?.id }, 200);
    await untilPublished(of);
    expect(published[0]?.acl).include(`org:${ada.orgId}`);
  });

  it('publishes nothing for other changes', async () => {
    const of = await ingest();
    published = [];
    await ada.patch(`/documents/${of.documentId}`, { name: 'Renamed' }, 200);
    expect(published).deep.equal([]);
  });

  it('retries by the sweeper when the store was down', async () => {
    const of = await ingest();
    const asked = refuse();
    await setRrfK(of, 11);
    await until('the store was asked', async () => asked.has(of.documentId));
    expect(await isOutdated(of)).equal(true);
    // The call may still arrive, so the lease prevents another one until it ends.
    await own.container.documents.publishOutdated();
    await endLeases();
    await own.container.documents.publishOutdated().then(
      () => expect.fail('the sweep should say that the store is down'),
      () => undefined,
    );

    published = [];
    publish = async (generation) => void published.push(generation);
    await endLeases();
    await own.container.documents.publishOutdated();
    expect(JSON.parse(published[0]?.retrievalSettings ?? '')).include({ rrfK: 11 });
    expect(await isOutdated(of)).equal(false);
  });

  it('does not let a request wait for a store that does not respond', async () => {
    const of = await ingest();
    const { promise: silence, resolve: answer } = Promise.withResolvers<void>();
    publish = () => silence;
    await setRrfK(of, 15);
    expect(await isOutdated(of)).equal(true);
    answer();
    await until('the store has answered', async () => !(await isOutdated(of)));
  });

  it('publishes other documents when the store refuses one', async () => {
    const [refused, fine] = [await ingest(), await ingest()];
    const asked = refuse();
    await Promise.all([setRrfK(refused, 14), setRrfK(fine, 14)]);
    await until('the store was asked about both', async () => asked.size === 2);
    await endLeases();
    publish = async ({ documentId }) => {
      if (documentId === refused.documentId) throw appError('internal_error');
    };
    await own.container.documents.publishOutdated().catch(() => undefined);
    expect(await Promise.all([refused, fine].map(isOutdated))).deep.equal([true, false]);
  });

  it('publishes the newest state when a change happens during the publication of an older one', async () => {
    const of = await ingest();
    published = [];
    publish = async (generation) => {
      published.push(generation);
      if (published.length === 1) await setRrfK(of, 13);
    };
    await setRrfK(of, 12);
    await until('the older state is published', async () => published.length === 1 && !(await isLeased(of)));
    expect(await isOutdated(of)).equal(true);
    await own.container.documents.publishOutdated();
    const settings = published.map(({ retrievalSettings }) => JSON.parse(retrievalSettings).rrfK);
    expect(settings).deep.equal([12, 13]);
    expect(await isOutdated(of)).equal(false);
  });
});
