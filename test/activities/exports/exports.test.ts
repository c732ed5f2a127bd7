import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect } from 'chai';
import { createExportActivities, type ExportActivities } from '#activities/exports.ts';
import type { ExportReference, WriteExportVolumeInput, WriteExportVolumeResult } from '#src/contracts/exports.ts';
import { createExportStepsService } from '#src/modules/exports/export-steps.service.ts';
import { exportedRecordKinds } from '#src/modules/exports/exported-records.ts';
import { createExportVolumeWriter, createZipArchive } from '#src/modules/exports/volume-writer.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Exported, recordsOf, sha256Of, unpack } from '#test/support/exported.ts';
import { runActivity } from '#test/support/ingestion-steps.ts';
import { useIdleStack } from '#test/support/stack.ts';

/** Small, so that each volume has a few documents. */
const volumeBytes = 4_000;

describe('export activities', () => {
  const own = useIdleStack();
  let ada: Member;
  let texts: string[];
  let of: ExportReference;
  let steps: ExportActivities;
  beforeEach(async () => {
    ada = await own.signUp();
    texts = Array.from({ length: 7 }, (_, n) => `Text ${n} of ${ada.userId}. `.repeat(40));
    for (const content of texts) await ada.upload('/documents', { name: 'note.txt', content }, 201);
    of = await begin();
    steps = stepsOf();
  });

  async function begin(): Promise<ExportReference> {
    const { export_id: exportId } = Object((await ada.post('/entity/org/exports', undefined, 202)).body);
    return { orgId: ada.orgId, exportId };
  }
  function stepsOf(blobs: Pick<BlobStore, 'read'> = own.container.blobs): ExportActivities {
    const { db, originals, accounts, jobs, exports } = own.container;
    const writer = createExportVolumeWriter({ db, blobs, volumeBytes });
    const deps = { db, writer, originals, accounts, jobs, exports, keepDays: 7 };
    return createExportActivities({ exportSteps: createExportStepsService(deps) });
  }
  const write = (by: ExportActivities, number: number) =>
    runActivity<WriteExportVolumeInput, WriteExportVolumeResult>(by.writeVolume, { ...of, number, done: 0, total: 0 });
  /** Writes each volume twice at the same time. @returns the number of volumes */
  async function writeFrom(first = 1): Promise<number> {
    for (let number = first; ; number += 1) {
      const [one, other] = await Promise.all([write(steps, number), write(steps, number)]);
      expect(one).deep.equal(other);
      if (!one.isMore) return number;
    }
  }
  const volumesNow = () => own.db('exportVolumes').where({ exportId: of.exportId }).orderBy('number');
  /** @returns the contents of the stored volumes */
  const archives = async () =>
    Promise.all((await volumesNow()).map(async ({ blobKey }) => buffer(await own.container.blobs.read(blobKey))));
  /** @returns the files of all volumes, among them every document */
  async function expectAll(): Promise<Exported> {
    const files = await unpack(await archives());
    const documents = recordsOf(files, 'documents');
    const contents = documents.map(({ original }) => String(files.get(Object(original).path)));
    expect(contents.sort()).deep.equal(texts);
    for (const { original, sha256 } of documents) expect(Object(original).sha256).equal(sha256);
    return files;
  }

  it('write every volume once, even if each activity runs twice at the same time', async () => {
    const { total } = await runActivity<ExportReference, { total: number }>(steps.countExport, of);
    const count = await writeFrom();
    expect(count).above(2);
    const files = await expectAll();
    const { volumes, records } = JSON.parse(String(files.get('manifest.json')));
    expect(volumes).length(count);
    for (const [index, archive] of (await archives()).slice(0, -1).entries()) {
      expect(volumes[index].sha256).equal(sha256Of(archive));
    }
    expect(recordsOf(files, 'sessions'), 'for operators only').deep.equal([]);
    expect(records).include({ organization: 1, users: 1, documents: 7, folders: 2 });
    expect(Object.values(records as Record<string, number>).reduce((a, b) => a + b)).equal(total);
    const orphans = { pass: 'blobs', after: null, repair: false, graceSeconds: 0 } as const;
    expect((await own.container.storeAudit.auditPage(orphans)).findings).deep.equal({});
  });

  it('continue after a failure of the blob store, and leave nothing of the interrupted volume', async () => {
    const fifth = await own.db('documents').where({ orgId: ada.orgId }).orderBy('id').offset(4).first();
    async function* cut() {
      yield Buffer.from('Text');
      throw new Error('the line is cut');
    }
    const { blobs } = own.container;
    const broken = stepsOf({
      read: async (key, range) => (key === fifth.blobKey ? Readable.from(cut()) : blobs.read(key, range)),
    });
    let number = 1;
    const writing = async () => {
      for (; ; number += 1) await write(broken, number);
    };
    expect(String(await writing().catch((error: unknown) => error))).contain('the line is cut');
    expect(number).above(1);
    expect(await volumesNow()).length(number - 1);
    await writeFrom(number);
    await expectAll();
  });

  it('export the other data of a document whose original is missing', async () => {
    const { blobKey, id } = await own.db('documents').where({ orgId: ada.orgId }).first();
    await own.container.blobs.delete(blobKey);
    await writeFrom();
    const documents = recordsOf(await unpack(await archives()), 'documents');
    expect(documents).length(7);
    expect(documents.find((document) => document.document_id === id)).include({ original: null });
  });

  it('fail once the user who requested the export is no longer an admin, or the export is deleted', async () => {
    const grace = await aColleague(own, ada, 'Grace', { is_admin: true });
    await grace.patch(`/entity/members/${ada.userId}/org-admin`, { is_org_admin: false }, 200);
    expect(await appErrorCode(write(steps, 1))).equal('forbidden');
    await own.db('exports').where({ id: of.exportId }).delete();
    expect(await appErrorCode(write(steps, 1))).equal('export_not_found');
    expect(await appErrorCode(runActivity(steps.publishExport, { ...of, records: 1 }))).equal('export_not_found');
  });

  it('delete the oldest exports while all exports together exceed twice the storage quota, but never the newest', async () => {
    const { db, config } = own;
    const { storageBytes } = config.tierLimits.free;
    const ids: string[] = [];
    for (const [sizeBytes, kept] of [
      [storageBytes, [0]],
      [storageBytes, [0, 1]],
      [1, [1, 2]],
      [3 * storageBytes, [3]],
    ] as const) {
      if (ids.length > 0) of = await begin();
      const { orgId, exportId } = of;
      ids.push(exportId);
      const volume = { number: 1, blobKey: `${orgId}/${exportId}`, sha256: exportId, records: '{}', sizeBytes };
      await db('exportVolumes').insert({ ...of, ...volume });
      await runActivity(steps.publishExport, { ...of, records: 1 });
      await db('jobs')
        .update({ status: 'succeeded', finishedAt: db.fn.now() })
        .where({ id: `export-${exportId}` });
      const left = await db('exports').where({ orgId }).orderBy('createdAt').pluck('id');
      expect(left).deep.equal(kept.map((index) => ids[index]));
    }
  });

  it('delete the stored volumes when the export is cancelled', async () => {
    await write(steps, 1);
    const [{ blobKey }] = await volumesNow();
    await runActivity(steps.recordExportCancellation, of);
    expect(await volumesNow()).deep.equal([]);
    expect(await own.container.blobs.exists(blobKey)).equal(false);
  });

  it('buffer only a few pieces of a large file while the reader is slow', async () => {
    const [pieceBytes, pieceCount] = [1_048_576, 64];
    const archive = createZipArchive(new Date());
    let [made, read, mostHeld] = [0, 0, 0];
    async function* pieces() {
      for (; made < pieceCount * pieceBytes; made += pieceBytes) {
        mostHeld = Math.max(mostHeld, made - read);
        yield Buffer.alloc(pieceBytes, 'x');
      }
    }
    const added = archive.add('large', pieces(), { isPacked: true }).then(() => archive.end());
    for await (const part of archive.content) read += part.length;
    await added;
    expect(read).above(pieceCount * pieceBytes);
    expect(mostHeld).below(8 * pieceBytes);
  });

  it('omit every column that may hold a secret', () => {
    const fields = exportedRecordKinds.map((kind) => kind.fields).join(' ');
    expect(fields).not.match(/credentials|password|token_hash|verifier|lease|\*/);
  });
});
