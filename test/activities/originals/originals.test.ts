import { Readable } from 'node:stream';
import { expect } from 'chai';
import pLimit from 'p-limit';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createOriginalFilesService } from '#src/modules/originals/originals.service.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

type Blobs = Parameters<typeof createOriginalFilesService>[0]['blobs'];

describe('the originals that documents share', () => {
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
    own.container.uploads.store(actor, {
      fileName: 'a.txt',
      mediaType: 'text/plain',
      content: Readable.from([Buffer.from(content)]),
    });
  /** Creates the service with some methods of the blob store replaced. */
  function originalsOver(blobs: Partial<Blobs>, deleteTimeoutMs?: number) {
    const { db, logger } = own.container;
    return createOriginalFilesService({
      ...{ db, logger, limit: pLimit(2), blobs: { ...own.container.blobs, ...blobs } },
      ...(deleteTimeoutMs !== undefined && { deleteTimeoutMs }),
    });
  }
  const isLockAwaited = async () => {
    const { rows } = await own.container.db.raw(
      `select from pg_locks l join pg_database d on d.oid = l.database and d.datname = current_database()
       where l.locktype = 'advisory' and not l.granted`,
    );
    return rows.length > 0;
  };
  /** Releases an original as the deletion workflow does. */
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
    await until('no claim is left', async () => (await claims()).length === 0);
    expect(await keysOfStore()).deep.equal([]);
  });

  it('are one object for the same content, until the last of their documents is gone', async () => {
    const [first, second] = [await upload('shared'), await upload('shared')];
    expect(await keysOfStore()).deep.equal([await keyOf(first)]);
    await remove(first);
    expect((await ada.get(`/documents/${second}/file`, 200)).body).equal('shared');
    await remove(second);
  });

  it('are not shared between organizations', async () => {
    const bob = await own.signUp('Bob');
    const { body } = await bob.upload('/documents', { name: 'a.txt', content: 'apart' }, 201);
    const { id } = fullDocumentSchema.parse(body);
    await remove(await upload('apart'));
    expect((await bob.get(`/documents/${id}/file`, 200)).body).equal('apart');
  });

  it('stay when one of their documents gets another original, or the same content again', async () => {
    const [first, second] = [await upload('old'), await upload('old')];
    await upload('new', `/documents/${first}`, 'PATCH');
    expect((await ada.get(`/documents/${second}/file`, 200)).body).equal('old');
    await upload('new', `/documents/${first}`, 'PATCH');
    expect((await ada.get(`/documents/${first}/file`, 200)).body).equal('new');
    await remove(second);
    expect(await keysOfStore()).deep.equal([await keyOf(first)]);
  });

  it('stay for a concurrent upload when the last document with this content is deleted', async () => {
    const id = await upload('in time');
    const file = await store('in time');
    await remove(id);
    const document = { file, name: undefined, targetFolderId: undefined, chunking: {}, ingest: false };
    const made = await own.container.documents.upload(actor, document);
    expect((await ada.get(`/documents/${made.id}/file`, 200)).body).equal('in time');
  });

  it('are stored again by an upload during the deletion of the last document', async () => {
    const { blobs } = own.container;
    const deleting = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const slow = originalsOver({
      delete: async (key) => {
        deleting.resolve();
        await goOn.promise;
        await blobs.delete(key);
      },
    });
    const id = await upload('raced');
    const of = { orgId: ada.orgId, blobKey: await keyOf(id) };
    await ada.delete(`/documents/${id}`, 204);
    const released = slow.release(of);
    await deleting.promise;
    const again = upload('raced');
    await until('the upload waits for the deletion', isLockAwaited);
    goOn.resolve();
    await released;
    expect((await ada.get(`/documents/${await again}/file`, 200)).body).equal('raced');
    await own.container.deletion.forgetDocument({ orgId: ada.orgId, documentId: id });
  });

  it('survive concurrent uploads and deletions of the same content', async () => {
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

  it('of a failed upload are deleted when the claim expires, and not before', async () => {
    const { blobKey, claimId } = await store('crashed');
    await own.container.originals.sweepExpired();
    expect(await keysOfStore()).deep.equal([blobKey]);
    await own.container.db('blobClaims').where({ id: claimId }).update({ expiresAt: new Date() });
    await own.container.originals.sweepExpired();
    expect(await keysOfStore()).deep.equal([]);
  });

  it('cannot be used by an upload whose expired claim was swept', async () => {
    const file = await store('late');
    await own.container.uploads.discard(file);
    const document = { file, name: undefined, targetFolderId: undefined, chunking: {}, ingest: false };
    expect(await appErrorCode(own.container.documents.upload(actor, document))).equal('service_unavailable');
  });

  it('are kept if the document exists although its upload was discarded', async () => {
    const file = await store('kept');
    const document = { file, name: undefined, targetFolderId: undefined, chunking: {}, ingest: false };
    const { id } = await own.container.documents.upload(actor, document);
    await own.container.uploads.discard(file);
    expect((await ada.get(`/documents/${id}/file`, 200)).body).equal('kept');
  });

  it('are deleted by the sweep if the blob store was unavailable at release', async () => {
    const file = await store('stuck');
    const away = originalsOver({ delete: () => Promise.reject(new Error('away')) });
    await away.discard(file);
    expect(await keysOfStore()).deep.equal([file.blobKey]);
    await own.container.originals.sweepExpired();
  });

  it('are deleted by the sweep although deleting another one fails', async () => {
    const files = [await store('kept by the store'), await store('not kept')];
    const [stuck] = files;
    const { blobs } = own.container;
    const stubborn = originalsOver({
      delete: async (key) => {
        if (key === stuck?.blobKey) throw new Error('locked');
        await blobs.delete(key);
      },
    });
    for (const { claimId } of files) {
      await own.container.db('blobClaims').where({ id: claimId }).update({ expiresAt: new Date() });
    }
    const failure = await stubborn.sweepExpired().catch((error: unknown) => error);
    expect(failure).property('message', 'locked');
    expect(await keysOfStore()).deep.equal([stuck?.blobKey]);
    await own.container.originals.sweepExpired();
  });

  it('stay locked no longer than the timeout of a blob store that does not answer', async () => {
    const id = await upload('silent');
    const of = { orgId: ada.orgId, blobKey: await keyOf(id) };
    await ada.delete(`/documents/${id}`, 204);
    const asked = Promise.withResolvers<AbortSignal | undefined>();
    const silent = originalsOver(
      {
        delete: (_, signal) => {
          asked.resolve(signal);
          return new Promise(() => undefined);
        },
      },
      200,
    );
    expect(await appErrorCode(silent.release(of))).equal('service_unavailable');
    expect((await asked.promise)?.aborted).equal(true);
    const again = await upload('silent');
    expect((await ada.get(`/documents/${again}/file`, 200)).body).equal('silent');
    await own.container.deletion.forgetDocument({ orgId: ada.orgId, documentId: id });
  });

  it('leave database connections for other work while the blob store does not answer', async () => {
    const { db } = own.container;
    const answer = Promise.withResolvers<void>();
    let asked = 0;
    const silent = originalsOver({
      delete: async () => {
        asked += 1;
        await answer.promise;
      },
    });
    const connections = db.client.pool.max;
    const released = Array.from({ length: 2 * connections }, (_, n) =>
      silent.release({ orgId: ada.orgId, blobKey: `${ada.orgId}/${n}` }),
    );
    await until('the store is asked', async () => asked > 1);
    expect((await db.raw('select 1 as one')).rows).deep.equal([{ one: 1 }]);
    answer.resolve();
    await Promise.all(released);
    expect(asked).equal(2 * connections);
  });

  it('are released without waiting long for a blob store that does not answer', async () => {
    const file = await store('given up');
    const answer = Promise.withResolvers<void>();
    const { blobs } = own.container;
    const silent = originalsOver({
      delete: async (key) => {
        await answer.promise;
        await blobs.delete(key);
      },
    });
    await silent.discard(file);
    expect(await keysOfStore()).deep.equal([file.blobKey]);
    answer.resolve();
    await until('the store has answered', async () => (await claims()).length === 0);
  });
});
