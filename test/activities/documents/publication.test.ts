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

describe('what the vector store is told of a document', () => {
  let own: Stack;
  let ada: Member;
  let db: Knex;
  let vectors: VectorStore;
  let told: PublishedGeneration[];
  /** The store in Postgres has no need to be told; this one writes down what it is. */
  let listen: VectorStore['publish'];

  before(async () => {
    own = await startStack({}, { workers: false });
    ada = await own.signUp();
    ({ db, vectors } = own.container);
    vectors.publish = (generation) => listen(generation);
  });
  after(() => own.close());
  beforeEach(() => {
    told = [];
    listen = async (generation) => void told.push(generation);
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

  /** A request waits for the store for a moment only; nobody but what it began tells it here. */
  const untilTold = (of: IngestDocumentInput) => until('the store was told', async () => !(await isOutdated(of)));
  const isLeased = async ({ documentId }: IngestDocumentInput) =>
    (await db('documents').where({ id: documentId }).first('pointsLeasedUntil')).pointsLeasedUntil !== null;
  /** @returns the documents that it was asked about */
  function refuse(): Set<string> {
    const asked = new Set<string>();
    listen = async ({ documentId }) => {
      asked.add(documentId);
      throw appError('service_unavailable');
    };
    return asked;
  }

  const endLeases = () =>
    db('documents')
      .whereNotNull('pointsLeasedUntil')
      .update({ pointsLeasedUntil: db.raw("now() - interval '1 s'") });

  it('is there before readers see the generation', async () => {
    let activeThen: unknown = 'nobody was told';
    listen = async ({ documentId }) => {
      activeThen = (await db('documents').where({ id: documentId }).first('activeGeneration')).activeGeneration;
    };
    const { documentId } = await ingest();
    expect(activeThen).equal(null);
    const row = await db('documents').where({ id: documentId }).first('activeGeneration', 'activeEmbeddingModel');
    expect(row).deep.equal({ activeGeneration: 1, activeEmbeddingModel: own.config.models.embeddingModel });
  });

  it('is told again when it changes before the generation is active', async () => {
    listen = async (generation) => {
      told.push(generation);
      if (told.length === 1) {
        await db('documents')
          .where({ id: generation.documentId })
          .update({ acl: ['user:somebody'] });
      }
    };
    await ingest();
    expect(told.map(({ acl }) => acl)).deep.equal([[`user:${ada.userId}`], ['user:somebody']]);
  });

  it('follows a change of the settings at once', async () => {
    const of = await ingest();
    told = [];
    await setRrfK(of, 10);
    await untilTold(of);
    expect(told.map(({ documentId, generation }) => ({ documentId, generation }))).deep.equal([
      { documentId: of.documentId, generation: 1 },
    ]);
    expect(JSON.parse(told[0]?.retrievalSettings ?? '')).include({ rrfK: 10, mode: 'hybrid' });
  });

  it('follows a move at once', async () => {
    const of = await ingest();
    told = [];
    const { body } = await ada.get('/folders', 200);
    const roots = folderTreeNodeSchema.array().parse(body);
    const target = roots.find((folder) => folder.system_role === 'org_root');
    await ada.patch(`/documents/${of.documentId}`, { target_folder_id: target?.id }, 200);
    await untilTold(of);
    expect(told[0]?.acl).include(`org:${ada.orgId}`);
  });

  it('is left alone by other changes', async () => {
    const of = await ingest();
    told = [];
    await ada.patch(`/documents/${of.documentId}`, { name: 'Renamed' }, 200);
    expect(told).deep.equal([]);
  });

  it('waits for a store that is down', async () => {
    const of = await ingest();
    const asked = refuse();
    await setRrfK(of, 11);
    await until('the store was asked', async () => asked.has(of.documentId));
    expect(await isOutdated(of)).equal(true);
    // What was sent may still arrive, so that nobody sends anything for a while.
    await own.container.documents.publishOutdated();
    await endLeases();
    await own.container.documents.publishOutdated().then(
      () => expect.fail('the sweep should say that the store is down'),
      () => undefined,
    );

    told = [];
    listen = async (generation) => void told.push(generation);
    await endLeases();
    await own.container.documents.publishOutdated();
    expect(JSON.parse(told[0]?.retrievalSettings ?? '')).include({ rrfK: 11 });
    expect(await isOutdated(of)).equal(false);
  });

  it('keeps nobody waiting for a store that is silent', async () => {
    const of = await ingest();
    const { promise: silence, resolve: answer } = Promise.withResolvers<void>();
    listen = () => silence;
    await setRrfK(of, 15);
    expect(await isOutdated(of)).equal(true);
    answer();
    await until('the store has answered', async () => !(await isOutdated(of)));
  });

  it('does not wait for a document that the store refuses', async () => {
    const [refused, fine] = [await ingest(), await ingest()];
    const asked = refuse();
    await Promise.all([setRrfK(refused, 14), setRrfK(fine, 14)]);
    await until('the store was asked about both', async () => asked.size === 2);
    await endLeases();
    listen = async ({ documentId }) => {
      if (documentId === refused.documentId) throw appError('internal_error');
    };
    await own.container.documents.publishOutdated().catch(() => undefined);
    expect(await Promise.all([refused, fine].map(isOutdated))).deep.equal([true, false]);
  });

  it('is the newest, also when a change comes while an older one is being told', async () => {
    const of = await ingest();
    told = [];
    listen = async (generation) => {
      told.push(generation);
      if (told.length === 1) await setRrfK(of, 13);
    };
    await setRrfK(of, 12);
    await until('the older one is told', async () => told.length === 1 && !(await isLeased(of)));
    expect(await isOutdated(of)).equal(true);
    await own.container.documents.publishOutdated();
    const settings = told.map(({ retrievalSettings }) => JSON.parse(retrievalSettings).rrfK);
    expect(settings).deep.equal([12, 13]);
    expect(await isOutdated(of)).equal(false);
  });
});
