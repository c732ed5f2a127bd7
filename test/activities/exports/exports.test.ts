import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect } from 'chai';
import { createExportActivities, type ExportActivities } from '#activities/exports.ts';
import type { ExportReference, WriteExportVolumeInput, WriteExportVolumeResult } from '#src/contracts/exports.ts';
import { createExportStepsService } from '#src/modules/exports/export-steps.service.ts';
import { exportedRecordKinds } from '#src/modules/exports/exported-records.ts';
import { createExportVolumeWriter, createZipArchive } from '#src/modules/exports/volume-writer.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Exported, recordsOf, sha256Of, unpack } from '#test/support/exported.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

/** Small, so that each volume has a few documents. */
const volumeBytes = 4_000;

describe('export activities', () => {
  let own: Stack;
  let ada: Member;
  let texts: string[];

  before(async () => {
    // No workers: the tests call the activities themselves.
    own = await startStack({}, { workers: false });
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
    texts = Array.from({ length: 7 }, (_, n) => `Text ${n} of ${ada.userId}. `.repeat(40));
    for (const content of texts) await ada.upload('/documents', { name: 'note.txt', content }, 201);
  });

  function stepsOf(blobs: Pick<BlobStore, 'read'> = own.container.blobs): ExportActivities {
    const { db, originals, accounts, jobs, exports } = own.container;
    const writer = createExportVolumeWriter({ db, blobs, volumeBytes });
    const deps = { db, writer, originals, accounts, jobs, exports, keepDays: 7 };
    return createExportActivities({ exportSteps: createExportStepsService(deps) });
  }
  const write = (steps: ExportActivities, of: ExportReference, number: number) =>
    runActivity<WriteExportVolumeInput, WriteExportVolumeResult>(steps.writeVolume, {
      ...of,
      number,
      done: 0,
      total: 0,
    });

  async function begin(member = ada): Promise<ExportReference> {
    const { export_id: exportId } = Object((await member.post('/entity/org/exports', undefined, 202)).body);
    return { orgId: member.orgId, exportId };
  }

  /** @returns the contents of the stored volumes */
  async function stored({ orgId, exportId }: ExportReference): Promise<Exported> {
    const { db, blobs } = own.container;
    const volumes = await db('exportVolumes').where({ orgId, exportId }).orderBy('number');
    return unpack(await Promise.all(volumes.map(async ({ blobKey }) => buffer(await blobs.read(blobKey)))));
  }

  /** @returns the number of volumes */
  async function writeFrom(steps: ExportActivities, of: ExportReference, first = 1): Promise<number> {
    for (let number = first; ; number += 1) {
      const [one, other] = await Promise.all([write(steps, of, number), write(steps, of, number)]);
      expect(one).deep.equal(other);
      if (!one.isMore) return number;
    }
  }

  function expectAll(files: Exported): void {
    const documents = recordsOf(files, 'documents');
    const contents = documents.map(({ original }) => String(files.get(Object(original).path)));
    expect(contents.sort()).deep.equal(texts);
    for (const { original, sha256 } of documents) expect(Object(original).sha256).equal(sha256);
  }

  it('write every volume once, even if each activity runs twice at the same time', async () => {
    const of = await begin();
    const steps = stepsOf();
    const { total } = await runActivity<ExportReference, { total: number }>(steps.countExport, of);
    const count = await writeFrom(steps, of);
    expect(count).above(2);
    const files = await stored(of);
    expectAll(files);
    const manifest = JSON.parse(String(files.get('manifest.json')));
    expect(manifest.volumes).length(count);
    const { db, blobs } = own.container;
    const rows = await db('exportVolumes').where({ exportId: of.exportId }).orderBy('number');
    for (const [index, { blobKey }] of rows.slice(0, -1).entries()) {
      expect(manifest.volumes[index].sha256).equal(sha256Of(await buffer(await blobs.read(blobKey))));
    }
    const { organization, users, documents, folders } = manifest.records;
    expect({ organization, users, documents }).deep.equal({ organization: 1, users: 1, documents: 7 });
    expect(folders).equal(2);
    const { audit_log, ...all } = manifest.records as Record<string, number>;
    const sum = Object.values(all).reduce((a, b) => a + b, audit_log ?? 0);
    expect(sum).equal(total);
    // The store has no orphans.
    const stores = await own.container.storeAudit.auditPage({
      pass: 'blobs',
      after: null,
      repair: false,
      graceSeconds: 0,
    });
    expect(stores.findings).deep.equal({});
  });

  it('continue after a store failure and leave nothing of the interrupted volume', async () => {
    const of = await begin();
    const { blobs, db } = own.container;
    const fifth = await db('documents').where({ orgId: ada.orgId }).orderBy('id').offset(4).first();
    const broken = stepsOf({
      read: async (key, range) => {
        if (key !== fifth.blobKey) return blobs.read(key, range);
        return Readable.from(
          (async function* () {
            yield Buffer.from('Text');
            throw new Error('the line is cut');
          })(),
        );
      },
    });
    let number = 1;
    const failure = await (async () => {
      for (; ; number += 1) await write(broken, of, number);
    })().catch((error: unknown) => error);
    expect(String(failure)).contain('the line is cut');
    expect(await db('exportVolumes').where({ exportId: of.exportId })).length(number - 1);
    expect(number).above(1);
    await writeFrom(stepsOf(), of, number);
    expectAll(await stored(of));
  });

  it('export a document without its missing original', async () => {
    const of = await begin();
    const { blobKey, id } = await own.container.db('documents').where({ orgId: ada.orgId }).first();
    await own.container.blobs.delete(blobKey);
    await writeFrom(stepsOf(), of);
    const documents = recordsOf(await stored(of), 'documents');
    expect(documents).length(7);
    expect(documents.find((document) => document.document_id === id)).include({ original: null });
  });

  it('fail once the requesting user is no longer an admin, or the export is deleted', async () => {
    const grace = await aColleague(own, ada, 'Grace');
    const { db } = own.container;
    await db('memberships').where({ userId: grace.userId }).update({ isOrgAdmin: true });
    const of = await begin(ada);
    await db('memberships').where({ userId: ada.userId }).update({ isOrgAdmin: false });
    expect(await appErrorCode(write(stepsOf(), of, 1))).equal('forbidden');
    await db('exports').where({ id: of.exportId }).delete();
    expect(await appErrorCode(write(stepsOf(), of, 1))).equal('export_not_found');
    const publish = runActivity(stepsOf().publishExport, { ...of, records: 1 });
    expect(await appErrorCode(publish)).equal('export_not_found');
  });

  it('delete older exports beyond twice the storage quota, and keep the newest', async () => {
    const { db, config } = own.container;
    const { storageBytes } = config.tierLimits.free;
    async function publishOf(sizeBytes: number): Promise<string> {
      const of = await begin();
      const volume = { number: 1, blobKey: `${of.orgId}/${of.exportId}`, sha256: of.exportId, records: '{}' };
      await db('exportVolumes').insert({ ...of, ...volume, sizeBytes });
      await runActivity(stepsOf().publishExport, { ...of, records: 1 });
      await db('jobs')
        .where({ id: `export-${of.exportId}` })
        .update({ status: 'succeeded', finishedAt: db.fn.now() });
      return of.exportId;
    }
    const kept = async () => (await db('exports').where({ orgId: ada.orgId }).orderBy('createdAt')).map(({ id }) => id);
    const first = await publishOf(storageBytes);
    const second = await publishOf(storageBytes);
    expect(await kept()).deep.equal([first, second]);
    const third = await publishOf(1);
    expect(await kept()).deep.equal([second, third]);
    const large = await publishOf(3 * storageBytes);
    expect(await kept()).deep.equal([large]);
  });

  it('delete the stored volumes on cancellation', async () => {
    const of = await begin();
    const steps = stepsOf();
    await write(steps, of, 1);
    const { db, blobs } = own.container;
    const { blobKey } = await db('exportVolumes').where({ exportId: of.exportId }).first();
    await runActivity(steps.recordExportCancellation, of);
    expect(await db('exportVolumes').where({ exportId: of.exportId })).deep.equal([]);
    expect(await blobs.exists(blobKey)).equal(false);
    await writeFrom(steps, of);
    expectAll(await stored(of));
  });

  it('buffer only a few pieces of a large file before they are read', async () => {
    const { blobs } = own.container;
    const pieceBytes = 1_048_576;
    const pieceCount = 64;
    const archive = createZipArchive(new Date());
    let made = 0;
    let read = 0;
    let mostHeld = 0;
    async function* pieces() {
      for (; made < pieceCount * pieceBytes; made += pieceBytes) {
        mostHeld = Math.max(mostHeld, made - read);
        yield Buffer.alloc(pieceBytes, 'x');
      }
    }
    async function* counted() {
      for await (const part of archive.content) {
        read += part.length;
        yield part;
      }
    }
    const staged = blobs.stage({ content: Readable.from(counted()), limitBytes: 2 * pieceCount * pieceBytes });
    await archive.add('large', pieces(), { isPacked: true });
    archive.end();
    const { stagingKey, sizeBytes } = await staged;
    await blobs.unstage(stagingKey);
    expect(sizeBytes).above(pieceCount * pieceBytes);
    expect(mostHeld).below(8 * pieceBytes);
  });

  it('omit every column that may hold a secret, and the record kinds for operators only', async () => {
    const fields = exportedRecordKinds.map((kind) => kind.fields).join(' ');
    expect(fields).not.match(/credentials|password|token_hash|verifier|lease|\*/);
    const of = await begin();
    await writeFrom(stepsOf(), of);
    const files = await stored(of);
    expect(recordsOf(files, 'users')).length(1);
    expect(recordsOf(files, 'sessions')).deep.equal([]);
  });
});
