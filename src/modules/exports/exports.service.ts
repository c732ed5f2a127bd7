import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { ExportReference } from '#src/contracts/exports.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { exportWorkflowId } from '#src/contracts/workflow-ids.ts';
import { createOrFindExisting } from '#src/domain/access/idempotency.ts';
import { type Actor, accessKeyOfOrgAdmins, type RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OperatorIdentity } from '#src/modules/operator/operator.service.ts';
import type { AccessRightsChangesService } from '#src/modules/organization/organization.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { OriginalFilesService } from '#src/modules/originals/originals.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import {
  type ExportRecordPosition,
  type ExportVolume,
  type ExportVolumeSummary,
  type ExportWithJob,
  exportVolumeFileName,
} from './exports.model.ts';
import { createExportsRepository } from './exports.repository.ts';
import { type ExportVolumeWriter, sumOfRecordCounts } from './volume-writer.ts';

const MEDIA_TYPE = 'application/zip';
const EXPIRED_PER_STEP = 20;
/**
 * Complete exports that are kept per organization: one to use, one that is being downloaded, and one to compare with.
 */
const KEPT_EXPORTS = 3;
/**
 * Size limit of an organization's stored exports, as a multiple of its storage quota: two exports of a full
 * organization fit.
 */
const KEPT_QUOTAS = 2;

/**
 * Content of a download token for an export volume. It has the format of document tokens, so `documentId` holds the
 * export's id.
 */
type SignedVolume = { orgId: string; documentId: string; contentSha256: string };

/** `downloadUrl` is null while the export is incomplete, and for admins who did not request the export. */
type VolumeView = Pick<ExportVolume, 'number' | 'sizeBytes' | 'sha256'> & {
  name: string;
  downloadUrl: string | null;
};
export type ExportView = Omit<ExportWithJob, 'volumes' | 'jobStatus'> & {
  jobId: string;
  status: JobStatus;
  volumes: VolumeView[];
};

export type ExportsService = ReturnType<typeof createExportsService>;

/**
 * Exports of an organization, for its admins. Only the admin who requested an export can download it, because it holds
 * what that admin may read; the other admins see that it exists.
 */
export function createExportsService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'read' | 'signedUrl'>;
  originals: Pick<OriginalFilesService, 'scheduleRelease' | 'releaseNow' | 'release'>;
  accessChanges: Pick<AccessRightsChangesService, 'administer'>;
  limits: Pick<TierLimitsService, 'of'>;
  jobs: Pick<JobsService, 'enqueue' | 'dispatch'>;
  orchestrator: Pick<Orchestrator, 'cancel'>;
  audit: AuditService;
  /**
   * Signs download tokens for volumes. The key differs from that for documents, so that one token cannot be used as the
   * other.
   */
  tokens: { sign(file: SignedVolume, expiresAt: Date): string; open(token: string): SignedVolume };
  downloadUrlSeconds: number;
  keepDays: number;
}) {
  const { db, blobs, originals, accessChanges, limits, jobs, orchestrator, audit, tokens } = deps;
  const { downloadUrlSeconds, keepDays } = deps;
  const repository = createExportsRepository(db);

  async function urlOf({ orgId, id, volume }: { orgId: string; id: string; volume: ExportVolume }, publicUrl: string) {
    const named = { fileName: exportVolumeFileName(id, volume.number), mediaType: MEDIA_TYPE };
    const storeUrl = await blobs.signedUrl(volume.blobKey, { ...named, expiresInSeconds: downloadUrlSeconds });
    if (storeUrl !== null) return storeUrl;
    const expiresAt = new Date(Date.now() + downloadUrlSeconds * 1_000);
    return `${publicUrl}/files/exports/${tokens.sign({ orgId, documentId: id, contentSha256: volume.sha256 }, expiresAt)}`;
  }

  async function viewOf(actor: Actor, row: ExportWithJob, publicUrl: string): Promise<ExportView> {
    const { orgId, id, jobStatus, ...facts } = row;
    const isDownloadable =
      row.createdBy === actor.userId && row.completedAt !== null && row.expiresAt.getTime() > Date.now();
    const volumes = await Promise.all(
      row.volumes.map(async (volume) => {
        const { number, sizeBytes, sha256 } = volume;
        const downloadUrl = isDownloadable ? await urlOf({ orgId, id, volume }, publicUrl) : null;
        return { number, sizeBytes, sha256, name: exportVolumeFileName(id, number), downloadUrl };
      }),
    );
    // The status of an export without a job follows from whether the export is complete.
    const status = jobStatus ?? (row.completedAt === null ? 'cancelled' : 'succeeded');
    return { ...facts, orgId, id, jobId: exportWorkflowId(id), status, volumes };
  }

  async function remove(
    trx: Knex,
    { orgId, exportId }: ExportReference,
  ): Promise<{ orgId: string; blobKey: string }[] | undefined> {
    const volumes = await createExportsRepository(trx).delete(orgId, exportId);
    const keys = volumes?.map(({ blobKey }) => ({ orgId, blobKey }));
    for (const key of keys ?? []) await originals.scheduleRelease(trx, key);
    return keys;
  }

  /** A failed cancellation is ignored, because the run ends when one of its steps finds the export deleted. */
  async function cancelRun(exportId: string): Promise<void> {
    await orchestrator.cancel(exportWorkflowId(exportId)).catch(() => undefined);
  }

  return {
    async request(actor: RequestActor, exportId: string): Promise<string> {
      const { orgId, userId, requestId } = actor;
      const jobId = exportWorkflowId(exportId);
      const replacedKeys: { orgId: string; blobKey: string }[] = [];
      const insert = async (trx: Knex) => {
        const rows = createExportsRepository(trx);
        if (await rows.hasRunning(orgId)) throw appError('export_running');
        replacedKeys.length = 0;
        for (const target of await rows.listIncomplete(orgId)) {
          if (target === exportId) continue;
          replacedKeys.push(...((await remove(trx, { orgId, exportId: target })) ?? []));
          const detail = { replaced_by: exportId };
          const act = { orgId, actorId: userId, action: 'organization.export_deleted', target, requestId, detail };
          await audit.record(trx, act);
        }
        await rows.insert({ id: exportId, orgId, createdBy: userId }, keepDays);
        await jobs.enqueue(trx, {
          id: jobId,
          kind: 'export',
          orgId,
          createdBy: userId,
          acl: [accessKeyOfOrgAdmins(orgId)],
          start: {
            workflow: 'exportOrganization',
            input: { orgId, exportId },
            summary: 'Export the organization',
            bulk: true,
          },
          requestId,
        });
        const entry = { orgId, actorId: userId, action: 'organization.export_requested', target: exportId, requestId };
        await audit.record(trx, entry);
        return rows.find(orgId, exportId);
      };
      const make = () => accessChanges.administer(actor, insert);
      await createOrFindExisting(make, () => repository.find(orgId, exportId));
      for (const key of replacedKeys) await originals.releaseNow(key);
      await jobs.dispatch(jobId);
      return jobId;
    },

    async list(
      actor: Actor,
      page: { limit: number; after: ListPosition | null },
      publicUrl: string,
    ): Promise<{ items: ExportView[]; last: ListPosition | null }> {
      const { items, last } = await repository.list(actor.orgId, page);
      return { items: await Promise.all(items.map((row) => viewOf(actor, row, publicUrl))), last };
    },

    async get(actor: Actor, exportId: string, publicUrl: string): Promise<ExportView> {
      const row = await repository.find(actor.orgId, exportId);
      if (row === undefined) throw appError('export_not_found');
      return viewOf(actor, row, publicUrl);
    },

    async delete(actor: RequestActor, exportId: string): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const keys = await db.transaction(async (trx) => {
        const removed = await remove(trx, { orgId, exportId });
        if (removed === undefined) throw appError('export_not_found');
        const entry = { orgId, actorId: userId, action: 'organization.export_deleted', target: exportId, requestId };
        await audit.record(trx, entry);
        return removed;
      });
      await cancelRun(exportId);
      for (const key of keys) await originals.releaseNow(key);
    },

    async getSigned(token: string) {
      const { orgId, documentId: exportId, contentSha256 } = tokens.open(token);
      const volume = await repository.findVolume(orgId, exportId, contentSha256);
      if (volume === undefined) throw appError('export_not_found');
      const { blobKey, sizeBytes, sha256, number } = volume;
      return {
        fileName: exportVolumeFileName(exportId, number),
        mediaType: MEDIA_TYPE,
        sizeBytes,
        etag: sha256,
        open: (range?: { start: number; end: number }) => blobs.read(blobKey, range),
      };
    },

    async deleteVolumes({ orgId, exportId }: ExportReference): Promise<void> {
      const keys = await db.transaction(async (trx) => {
        const volumes = await createExportsRepository(trx).deleteVolumes(orgId, exportId);
        const gone = volumes.map(({ blobKey }) => ({ orgId, blobKey }));
        for (const key of gone) await originals.scheduleRelease(trx, key);
        return gone;
      });
      for (const key of keys) await originals.releaseNow(key);
    },

    async deleteOlder({ orgId }: Pick<ExportReference, 'orgId'>): Promise<void> {
      const { storageBytes } = await limits.of(orgId);
      const most = { count: KEPT_EXPORTS, bytes: KEPT_QUOTAS * storageBytes };
      for (const exportId of await repository.listBeyond(orgId, most)) {
        const keys = await db.transaction((trx) => remove(trx, { orgId, exportId }));
        for (const key of keys ?? []) await originals.releaseNow(key);
      }
    },

    async forget(owner: { orgId: string; userId: string | null }): Promise<void> {
      for (const exportId of await repository.listIdsOf(owner)) {
        const keys = await db.transaction((trx) => remove(trx, { orgId: owner.orgId, exportId }));
        await cancelRun(exportId);
        for (const key of keys ?? []) await originals.release(key);
      }
    },

    /** Deletes a batch of expired exports. `next` is null after the last batch. */
    async deleteExpired(): Promise<{ deleted: number; next: true | null }> {
      const expired = await repository.listExpired(EXPIRED_PER_STEP);
      for (const { id: exportId, orgId } of expired) {
        const keys = await db.transaction((trx) => remove(trx, { orgId, exportId }));
        for (const key of keys ?? []) await originals.releaseNow(key);
      }
      return { deleted: expired.length, next: expired.length === EXPIRED_PER_STEP || null };
    },
  };
}

/** Exports all data of an organization, for operators. Needs neither Temporal nor a worker. */
export function createOperatorExportsService(deps: { db: Knex; writer: ExportVolumeWriter; audit: AuditService }) {
  const { db, writer, audit } = deps;
  return {
    async *exportVolumes(
      { name: operator, requestId }: OperatorIdentity,
      orgId: string,
      save: (name: string, content: Readable) => Promise<void>,
    ): AsyncGenerator<{ name: string; sizeBytes: number; sha256: string; records: number }> {
      if (!(await createExportsRepository(db).hasOrganization(orgId)))
        throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      const [exportId, createdAt] = [uuidv7(), new Date()];
      const entry = { orgId, actorId: null, action: 'organization.exported', target: orgId, requestId };
      await audit.record(db, { ...entry, detail: { operator } });

      const previous: ExportVolumeSummary[] = [];
      const { signal } = new AbortController();
      for (let from: ExportRecordPosition | null = null, number = 1; ; number += 1) {
        const scope = { orgId, keys: null };
        const request = { exportId, createdAt, userId: null, scope, number, from, previous, signal };
        const { content, end } = writer.open(request);
        const hash = createHash('sha256');
        let sizeBytes = 0;
        async function* measured() {
          for await (const piece of content as AsyncIterable<Buffer>) {
            hash.update(piece);
            sizeBytes += piece.length;
            yield piece;
          }
        }
        const name = exportVolumeFileName(exportId, number);
        await save(name, Readable.from(measured(), { objectMode: false }));
        const { records, nextPlace } = await end;
        const sha256 = hash.digest('hex');
        previous.push({ number, sizeBytes, sha256, records });
        yield { name, sizeBytes, sha256, records: sumOfRecordCounts(records) };
        if (nextPlace === null) return;
        from = nextPlace;
      }
    },
  };
}
