import { Readable } from 'node:stream';
import { expect } from 'chai';
import type { RequestActor } from '#src/domain/visibility.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createOriginalsService } from '#src/modules/originals/originals.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('the originals that documents share', function () {
  this.timeout(60_000);
  let own: Stack;
  let ada: Member;
  let actor: RequestActor;
  before(async () => {
    own = await startStack({}, { workers: false });
    ada = await own.signUp();
    const keys = { isOrgAdmin: true, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    actor = { userId: ada.userId, orgId: ada.orgId, ...keys, requestId: 'test' };
  });
  after(() => own.close());

  const upload = async (content: string, path = '/documents', method: 'POST' | 'PATCH' = 'POST') => {
    const status = method === 'POST' ? 201 : 200;
    const form = { method, fields: { ingest: 'false' } } as const;
    const { body } = await ada.upload(path, { name: 'a.txt', content }, status, form);
    return fullDocumentSchema.parse(body).id;
  };
  const keysOfStore = async () => {
    const stored = await own.container.blobs.list({ after: null, limit: 1_000 });
    return stored.map(({ key }) => key).filter((key) => key.startsWith(`${ada.orgId}/`));
  };
  const keyOf = async (id: string): Promise<string> =>
    (await own.container.db('documents').where({ id }).first('blobKey')).blobKey;
  const claims = () => own.container.db('blobClaims').where({ orgId: ada.orgId });
  const store = (content: string) =>
    own.container.documents.storeFile(actor, {
      fileName: 'a.txt',
      mediaType: 'text/plain',
      content: Readable.from([Buffer.from(content)]),
    });
  /** What the workflow of a deletion does to originals. */
  async function remove(id: string): Promise<void> {
    await ada.delete(`/documents/${id}`, 204);
    const of = { orgId: ada.orgId, documentId: id };
    await own.container.deletion.deleteOriginal(of);
    await own.container.deletion.forgetDocument(of);
  }

  afterEach(async () => {
    for (const { id } of await own.container.db('documents').where({ orgId: ada.orgId, deletedAt: null })) {
      await remove(id);
    }
    expect(await keysOfStore()).deep.equal([]);
    expect(await claims()).deep.equal([]);
  });

  it('are one object for the same content, until the last of their documents is gone', async () => {
    const [first, second] = [await upload('shared'), await upload('shared')];
    expect(await keysOfStore()).deep.equal([await keyOf(first)]);
    await remove(first);
    expect((await ada.get(`/documents/${second}/file`, 200)).body).equal('shared');
    await remove(second);
  });

  it('are apart from those of other organizations', async () => {
    const bob = await own.signUp('Bob');
    const { body } = await bob.upload('/documents', { name: 'a.txt', content: 'apart' }, 201);
    const { id } = fullDocumentSchema.parse(body);
    await remove(await upload('apart'));
    expect((await bob.get(`/documents/${id}/file`, 200)).body).equal('apart');
  });

  it('stay when a document is replaced that shared them, and when it gets the same content again', async () => {
    const [first, second] = [await upload('old'), await upload('old')];
    await upload('new', `/documents/${first}`, 'PATCH');
    expect((await ada.get(`/documents/${second}/file`, 200)).body).equal('old');
    await upload('new', `/documents/${first}`, 'PATCH');
    expect((await ada.get(`/documents/${first}/file`, 200)).body).equal('new');
    await remove(second);
    expect(await keysOfStore()).deep.equal([await keyOf(first)]);
  });

  it('stay for an upload that is just being made when the last document of this content is deleted', async () => {
    const id = await upload('in time');
    const file = await store('in time');
    await remove(id);
    const document = { file, name: undefined, targetFolderId: undefined, chunking: {}, ingest: false };
    const made = await own.container.documents.upload(actor, document);
    expect((await ada.get(`/documents/${made.id}/file`, 200)).body).equal('in time');
  });

  it('are stored anew by an upload that comes while the last of this content is being deleted', async () => {
    const { db, blobs, logger } = own.container;
    const deleting = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const slow: Pick<BlobStore, 'stage' | 'promote' | 'unstage' | 'delete'> = {
      ...blobs,
      delete: async (key) => {
        deleting.resolve();
        await goOn.promise;
        await blobs.delete(key);
      },
    };
    const id = await upload('raced');
    const of = { orgId: ada.orgId, blobKey: await keyOf(id) };
    await ada.delete(`/documents/${id}`, 204);
    const released = createOriginalsService({ db, blobs: slow, logger }).release(of);
    await deleting.promise;
    const again = upload('raced');
    goOn.resolve();
    await released;
    expect((await ada.get(`/documents/${await again}/file`, 200)).body).equal('raced');
    await own.container.deletion.forgetDocument({ orgId: ada.orgId, documentId: id });
  });

  it('lose nothing when the same content is uploaded and deleted again and again at once', async () => {
    await Promise.all(
      Array.from({ length: 6 }, async (_, turn) => {
        for (let round = 0; round < 5; round += 1) {
          const id = await upload('contended');
          expect((await ada.get(`/documents/${id}/file`, 200)).body, `${turn}.${round}`).equal('contended');
          await remove(id);
        }
      }),
    );
  });

  it('of an upload that came to nothing go when its claim expires, and no sooner', async () => {
    const { blobKey, claimId } = await store('crashed');
    await own.container.originals.sweepExpired();
    expect(await keysOfStore()).deep.equal([blobKey]);
    await own.container.db('blobClaims').where({ id: claimId }).update({ expiresAt: new Date() });
    await own.container.originals.sweepExpired();
    expect(await keysOfStore()).deep.equal([]);
  });

  it('cannot be used by who comes after his claim was acted upon', async () => {
    const file = await store('late');
    await own.container.documents.discardFile(file);
    const document = { file, name: undefined, targetFolderId: undefined, chunking: {}, ingest: false };
    expect(await appErrorCode(own.container.documents.upload(actor, document))).equal('service_unavailable');
  });

  it('are kept by a document when its upload is given up after all', async () => {
    const file = await store('kept');
    const document = { file, name: undefined, targetFolderId: undefined, chunking: {}, ingest: false };
    const { id } = await own.container.documents.upload(actor, document);
    await own.container.documents.discardFile(file);
    expect((await ada.get(`/documents/${id}/file`, 200)).body).equal('kept');
  });

  it('are deleted by the sweep when the store was away as they were let go', async () => {
    const { db, blobs, logger } = own.container;
    const file = await store('stuck');
    const away: Pick<BlobStore, 'stage' | 'promote' | 'unstage' | 'delete'> = {
      ...blobs,
      delete: async () => {
        throw new Error('away');
      },
    };
    await createOriginalsService({ db, blobs: away, logger }).discard(file);
    expect(await keysOfStore()).deep.equal([file.blobKey]);
    await own.container.originals.sweepExpired();
  });
});
