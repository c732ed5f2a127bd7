import { Readable } from 'node:stream';
import { expect } from 'chai';
import pLimit from 'p-limit';
import { createOriginalFilesService } from '#src/modules/originals/originals.service.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { anUpload, replaceOriginal } from '#test/support/builders.ts';
import { adaOf } from '#test/support/indexed-documents.ts';
import { isLockAwaited } from '#test/support/services.ts';
import { useIdleStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

type Delete = Parameters<typeof createOriginalFilesService>[0]['blobs']['delete'];
type StoredUpload = Awaited<ReturnType<ReturnType<typeof useIdleStack>['container']['uploads']['store']>>;

describe('originals', () => {
  const own = useIdleStack();

  const actorNow = () => ({ ...adaOf(own.ada.orgId), userId: own.ada.userId, requestId: 'test' });
  const upload = async (content: string) =>
    (await anUpload(own.ada, { name: 'a.txt', content }, { ingest: 'false' })).id;
  /** Stores a file as an upload does, without the document that will have it. */
  function store(text: string) {
    const content = Readable.from([Buffer.from(text)]);
    return own.container.uploads.store(actorNow(), { fileName: 'a.txt', mediaType: 'text/plain', content });
  }
  const addDocument = (file: StoredUpload) => {
    const document = { file, name: undefined, targetFolderId: undefined, chunking: {}, ingest: false };
    return own.container.documents.upload(actorNow(), document);
  };
  const keysOfStore = async () => {
    const stored = await own.container.blobs.list({ after: null, limit: 1_000 });
    return stored.map(({ key }) => key).filter((key) => key.startsWith(`${own.ada.orgId}/`));
  };
  const keyOf = async (id: string): Promise<string> =>
    (await own.db('documents').where({ id }).first('blobKey')).blobKey;
  const claims = () => own.db('blobClaims').where({ orgId: own.ada.orgId });
  const expireClaims = () => claims().update({ expiresAt: new Date() });
  const sweep = () => own.container.originals.sweepExpired();
  async function expectContent(id: string, content: string): Promise<void> {
    expect((await own.ada.get(`/documents/${id}/file`, 200)).body).equal(content);
  }
  /** Creates the service with another way to delete from the blob store. */
  function originalsWith(deleteBlob: Delete, deleteTimeoutMs = 15_000) {
    const { logger, blobs } = own.container;
    const parts = { db: own.db, logger, limit: pLimit(2), deleteTimeoutMs };
    return createOriginalFilesService({ ...parts, blobs: { ...blobs, delete: deleteBlob } });
  }
  /** Marks a document as deleted. @returns its original, which is still to be released */
  async function markDeleted(id: string): Promise<{ orgId: string; blobKey: string }> {
    await own.ada.delete(`/documents/${id}`, 204);
    return { orgId: own.ada.orgId, blobKey: await keyOf(id) };
  }
  /** Deletes a document as the deletion workflow does. */
  async function remove(id: string): Promise<void> {
    const { orgId } = await markDeleted(id);
    await own.container.deletion.deleteOriginal({ orgId, documentId: id });
    await own.container.deletion.forgetDocument({ orgId, documentId: id });
  }

  afterEach('nothing is left of deleted documents', async () => {
    for (const { id, deletedAt } of await own.db('documents').where({ orgId: own.ada.orgId })) {
      if (deletedAt === null) await remove(id);
      else await own.container.deletion.forgetDocument({ orgId: own.ada.orgId, documentId: id });
    }
    await until('no claim is left', async () => (await claims()).length === 0);
    expect(await keysOfStore()).deep.equal([]);
  });

  it('are stored once per content and organization, until the last document with this content is gone', async () => {
    const [first, second] = [await upload('shared'), await upload('shared')];
    expect(await keysOfStore()).deep.equal([await keyOf(first)]);
    await remove(first);
    await expectContent(second, 'shared');

    const bob = await own.signUp('Bob');
    const { id } = await anUpload(bob, { name: 'a.txt', content: 'shared' });
    await remove(second);
    expect((await bob.get(`/documents/${id}/file`, 200)).body).equal('shared');
  });

  it('are kept when one document gets another file, and when the last one is deleted during an upload of equal content', async () => {
    const [first, second] = [await upload('old'), await upload('old')];
    for (let times = 0; times < 2; times += 1) {
      await replaceOriginal(own.ada, first, { name: 'a.txt', content: 'new' }, { ingest: 'false' });
      await expectContent(second, 'old');
      await expectContent(first, 'new');
    }
    const file = await store('old');
    await remove(second);
    await expectContent((await addDocument(file)).id, 'old');
  });

  it('are stored again if the same content is uploaded while their last document is being deleted', async () => {
    const [deleting, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow = originalsWith(async (key) => {
      deleting.resolve();
      await goOn.promise;
      await own.container.blobs.delete(key);
    });
    const released = slow.release(await markDeleted(await upload('raced')));
    await deleting.promise;
    const again = upload('raced');
    await until('the upload waits for the deletion', () => isLockAwaited(own.db));
    goOn.resolve();
    await released;
    await expectContent(await again, 'raced');
  });

  it('without a document are kept until the claim of their upload expires, and are then deleted by the sweep', async () => {
    const { blobKey } = await store('crashed');
    await sweep();
    expect(await keysOfStore()).deep.equal([blobKey]);
    await expireClaims();
    await sweep();
    expect(await keysOfStore()).deep.equal([]);
  });

  it('cannot be used for a new document once their upload is discarded, but are kept for a document that has them', async () => {
    const late = await store('late');
    await own.container.uploads.discard(late);
    expect(await appErrorCode(addDocument(late))).equal('service_unavailable');
    const kept = await store('kept');
    const { id } = await addDocument(kept);
    await own.container.uploads.discard(kept);
    await expectContent(id, 'kept');
  });

  it('are deleted by a later sweep if the blob store failed, even while the deletion of another original fails', async () => {
    const [stuck, other] = [await store('kept by the store'), await store('not kept')];
    await originalsWith(() => Promise.reject(new Error('away'))).discard(stuck);
    expect(await keysOfStore()).have.members([stuck.blobKey, other.blobKey]);
    await expireClaims();
    const stubborn = originalsWith(async (key) => {
      if (key === stuck.blobKey) throw new Error('locked');
      await own.container.blobs.delete(key);
    });
    expect(await stubborn.sweepExpired().catch((error: unknown) => error)).property('message', 'locked');
    expect(await keysOfStore()).deep.equal([stuck.blobKey]);
    await sweep();
  });

  it('can be uploaded again after their deletion timed out because the blob store did not answer', async () => {
    const asked = Promise.withResolvers<AbortSignal | undefined>();
    const silent = originalsWith((_, signal) => {
      asked.resolve(signal);
      return new Promise(() => undefined);
    }, 200);
    const released = silent.release(await markDeleted(await upload('silent')));
    expect(await appErrorCode(released)).equal('service_unavailable');
    expect((await asked.promise)?.aborted).equal(true);
    await expectContent(await upload('silent'), 'silent');
  });

  it('are deleted once a slow blob store answers; the wait delays neither requests nor other database work', async () => {
    const file = await store('given up');
    const { orgId } = own.ada;
    const answer = Promise.withResolvers<void>();
    let asked = 0;
    const silent = originalsWith(async (key) => {
      asked += 1;
      await answer.promise;
      await own.container.blobs.delete(key);
    });
    await silent.discard(file);
    expect(await keysOfStore()).deep.equal([file.blobKey]);
    const others = Array.from({ length: 2 * own.db.client.pool.max }, (_, n) => ({ orgId, blobKey: `${orgId}/${n}` }));
    const released = others.map(silent.release);
    await until('the store is asked twice, as often as it may be asked at once', async () => asked === 2);
    expect((await own.db.raw('select 1 as one')).rows).deep.equal([{ one: 1 }]);
    answer.resolve();
    await Promise.all(released);
    expect(asked).equal(1 + others.length);
    await until('the file is released', async () => (await claims()).length === 0);
  });
});
