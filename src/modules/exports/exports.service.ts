import type { Knex } from 'knex';
import type { ExportKey } from '#src/contracts/exports.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import type { ListPosition } from '#src/contracts/list-position.ts';
import { exportWorkflowId } from '#src/contracts/workflow-ids.ts';
import { makeOnce } from '#src/domain/access/idempotency.ts';
import { type Actor, adminsKey, type RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { AccessChangesService } from '#src/modules/organization/access-changes.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { OriginalsService } from '#src/modules/originals/originals.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { type ExportVolume, type ExportWithJob, volumeName } from './exports.model.ts';
import { createExportsRepository } from './exports.repository.ts';

const MEDIA_TYPE = 'application/zip';
const EXPIRED_AT_ONCE = 20;
/** One to use, one that is being downloaded, and one to compare with. */
const KEPT_EXPORTS = 3;
/** In storage quotas of the tier: two exports of an organization that uses all of its quota. */
const KEPT_QUOTAS = 2;

/** The export stands in the place of a document. */
type SignedVolume = { orgId: string; documentId: string; contentSha256: string };

/** `downloadUrl` is null for whom the export was not made for, and before it is complete. */
export type VolumeView = Pick<ExportVolume, 'number' | 'sizeBytes' | 'sha256'> & {
  name: string;
  downloadUrl: string | null;
};
/** `status` is that of its job. */
export type ExportView = Omit<ExportWithJob, 'volumes' | 'jobStatus'> & {
  jobId: string;
  status: JobStatus;
  volumes: VolumeView[];
};

export type ExportsService = ReturnType<typeof createExportsService>;

/**
 * Copies of an organization, for its admins. Each holds what the admin who asked for it may read, so that he alone is
 * given its files; that it is there, all admins see.
 */
export function createExportsService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'read' | 'signedUrl'>;
  originals: Pick<OriginalsService, 'scheduleRelease' | 'releaseNow' | 'release'>;
  accessChanges: Pick<AccessChangesService, 'administer'>;
  limits: Pick<TierLimitsService, 'of'>;
  jobs: Pick<JobsService, 'enqueue' | 'dispatch'>;
  orchestrator: Pick<Orchestrator, 'cancel'>;
  audit: AuditService;
  /** Those of documents, by another key. */
  tokens: { sign(file: SignedVolume, expiresAt: Date): string; open(token: string): SignedVolume };
  downloadUrlSeconds: number;
  keepDays: number;
}) {
  const { db, blobs, originals, accessChanges, limits, jobs, orchestrator, audit, tokens } = deps;
  const { downloadUrlSeconds, keepDays } = deps;
  const repository = createExportsRepository(db);

  async function urlOf({ orgId, id, volume }: { orgId: string; id: string; volume: ExportVolume }, publicUrl: string) {
    const named = { fileName: volumeName(id, volume.number), mediaType: MEDIA_TYPE };
    const ofStore = await blobs.signedUrl(volume.blobKey, { ...named, expiresInSeconds: downloadUrlSeconds });
    if (ofStore !== null) return ofStore;
    const expiresAt = new Date(Date.now() + downloadUrlSeconds * 1_000);
    return `${publicUrl}/files/exports/${tokens.sign({ orgId, documentId: id, contentSha256: volume.sha256 }, expiresAt)}`;
  }

  async function viewOf(actor: Actor, row: ExportWithJob, publicUrl: string): Promise<ExportView> {
    const { orgId, id, jobStatus, ...facts } = row;
    const isHis = row.createdBy === actor.userId && row.completedAt !== null && row.expiresAt.getTime() > Date.now();
    const volumes = await Promise.all(
      row.volumes.map(async (volume) => {
        const { number, sizeBytes, sha256 } = volume;
        const downloadUrl = isHis ? await urlOf({ orgId, id, volume }, publicUrl) : null;
        return { number, sizeBytes, sha256, name: volumeName(id, number), downloadUrl };
      }),
    );
    // Of one that was restored without its job nobody knows how far it would have come.
    const status = jobStatus ?? (row.completedAt === null ? 'cancelled' : 'succeeded');
    return { ...facts, orgId, id, jobId: exportWorkflowId(id), status, volumes };
  }

  /** In its caller's transaction. @returns the objects to release after the commit; undefined when it is gone */
  async function remove(
    trx: Knex,
    { orgId, exportId }: ExportKey,
  ): Promise<{ orgId: string; blobKey: string }[] | undefined> {
    const volumes = await createExportsRepository(trx).delete(orgId, exportId);
    const keys = volumes?.map(({ blobKey }) => ({ orgId, blobKey }));
    for (const key of keys ?? []) await originals.scheduleRelease(trx, key);
    return keys;
  }

  /** A step that is under way finds its export gone, and ends the run by itself. */
  async function stopRun(exportId: string): Promise<void> {
    await orchestrator.cancel(exportWorkflowId(exportId)).catch(() => undefined);
  }

  return {
    /**
     * Deletes exports that failed or were cancelled, whose place it takes. Throws `export_running` while another one of
     * the organization is under way. @returns the id of its job
     */
    async request(actor: RequestActor, exportId: string): Promise<string> {
      const { orgId, userId, requestId } = actor;
      const jobId = exportWorkflowId(exportId);
      const replacedKeys: { orgId: string; blobKey: string }[] = [];
      const insert = async (trx: Knex) => {
        const rows = createExportsRepository(trx);
        if (await rows.isOneRunning(orgId)) throw appError('export_running');
        replacedKeys.length = 0;
        for (const target of await rows.listIncomplete(orgId)) {
          // A request that is repeated finds its own.
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
          acl: [adminsKey(orgId)],
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
      await makeOnce(make, () => repository.find(orgId, exportId));
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

    /** Throws `export_not_found`. */
    async get(actor: Actor, exportId: string, publicUrl: string): Promise<ExportView> {
      const row = await repository.find(actor.orgId, exportId);
      if (row === undefined) throw appError('export_not_found');
      return viewOf(actor, row, publicUrl);
    },

    /** With its files; one that is under way is stopped. Throws `export_not_found`. */
    async delete(actor: RequestActor, exportId: string): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const keys = await db.transaction(async (trx) => {
        const removed = await remove(trx, { orgId, exportId });
        if (removed === undefined) throw appError('export_not_found');
        const entry = { orgId, actorId: userId, action: 'organization.export_deleted', target: exportId, requestId };
        await audit.record(trx, entry);
        return removed;
      });
      await stopRun(exportId);
      for (const key of keys) await originals.releaseNow(key);
    },

    /** The volume that an address is about. Throws `export_not_found` once it is deleted or has expired. */
    async getSigned(token: string) {
      const { orgId, documentId: exportId, contentSha256 } = tokens.open(token);
      const volume = await repository.findVolume(orgId, exportId, contentSha256);
      if (volume === undefined) throw appError('export_not_found');
      const { blobKey, sizeBytes, sha256, number } = volume;
      return {
        fileName: volumeName(exportId, number),
        mediaType: MEDIA_TYPE,
        sizeBytes,
        etag: sha256,
        open: (range?: { start: number; end: number }) => blobs.read(blobKey, range),
      };
    },

    /** Of one that goes no further: it begins anew when it is asked for again. */
    async deleteVolumes({ orgId, exportId }: ExportKey): Promise<void> {
      const keys = await db.transaction(async (trx) => {
        const volumes = await createExportsRepository(trx).deleteVolumes(orgId, exportId);
        const gone = volumes.map(({ blobKey }) => ({ orgId, blobKey }));
        for (const key of gone) await originals.scheduleRelease(trx, key);
        return gone;
      });
      for (const key of keys) await originals.releaseNow(key);
    },

    /** The older ones of the organization that it may not keep beside its newest. */
    async deleteOlder({ orgId }: Pick<ExportKey, 'orgId'>): Promise<void> {
      const { storageBytes } = await limits.of(orgId);
      const most = { count: KEPT_EXPORTS, bytes: KEPT_QUOTAS * storageBytes };
      for (const exportId of await repository.listBeyond(orgId, most)) {
        const keys = await db.transaction((trx) => remove(trx, { orgId, exportId }));
        for (const key of keys ?? []) await originals.releaseNow(key);
      }
    },

    /** Of somebody who has left, or of an organization that was deleted: at once, since nobody may have them any more. */
    async forget(whose: { orgId: string; userId: string | null }): Promise<void> {
      for (const exportId of await repository.listIdsOf(whose)) {
        const keys = await db.transaction((trx) => remove(trx, { orgId: whose.orgId, exportId }));
        await stopRun(exportId);
        for (const key of keys ?? []) await originals.release(key);
      }
    },

    /** A step of the sweeper. */
    async deleteExpired(): Promise<void> {
      for (const { id: exportId, orgId } of await repository.listExpired(EXPIRED_AT_ONCE)) {
        const keys = await db.transaction((trx) => remove(trx, { orgId, exportId }));
        for (const key of keys ?? []) await originals.releaseNow(key);
      }
    },
  };
}
