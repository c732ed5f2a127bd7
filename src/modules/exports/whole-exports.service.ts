import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { Operator } from '#src/modules/operator/operator.service.ts';
import { type ExportPlace, type VolumeFacts, volumeName } from './exports.model.ts';
import { createExportsRepository } from './exports.repository.ts';
import { totalOf } from './manifest.ts';
import type { VolumeWriter } from './volume-writer.ts';

/** Copies of all that an organization has, for the operator: made by his own process, and kept wherever he likes. */
export function createWholeExportsService({
  db,
  writer,
  audit,
}: {
  db: Knex;
  writer: VolumeWriter;
  audit: AuditService;
}) {
  return {
    /**
     * Makes volume after volume, each of which `keep` reads to its end. Throws `not_found`. It needs neither engine nor
     * worker.
     */
    async *volumesOf(
      { name: operator, requestId }: Operator,
      orgId: string,
      keep: (name: string, content: Readable) => Promise<void>,
    ): AsyncGenerator<{ name: string; sizeBytes: number; sha256: string; records: number }> {
      if (!(await createExportsRepository(db).isOrganization(orgId)))
        throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      const [exportId, createdAt] = [uuidv7(), new Date()];
      const entry = { orgId, actorId: null, action: 'organization.exported', target: orgId, requestId };
      await audit.record(db, { ...entry, detail: { operator } });

      const previous: VolumeFacts[] = [];
      const { signal } = new AbortController();
      for (let from: ExportPlace | null = null, number = 1; ; number += 1) {
        const reading = { orgId, keys: null };
        const order = { exportId, createdAt, userId: null, reading, number, from, previous, signal };
        const { content, end } = writer.open(order);
        const hash = createHash('sha256');
        let sizeBytes = 0;
        async function* measured() {
          for await (const piece of content as AsyncIterable<Buffer>) {
            hash.update(piece);
            sizeBytes += piece.length;
            yield piece;
          }
        }
        const name = volumeName(exportId, number);
        await keep(name, Readable.from(measured(), { objectMode: false }));
        const { records, nextPlace } = await end;
        const sha256 = hash.digest('hex');
        previous.push({ number, sizeBytes, sha256, records });
        yield { name, sizeBytes, sha256, records: totalOf(records) };
        if (nextPlace === null) return;
        from = nextPlace;
      }
    },
  };
}
