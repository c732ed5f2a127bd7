import type { Reading } from './exported-records.repository.ts';
import { type RecordCounts, type VolumeFacts, volumeName } from './exports.model.ts';

/** Of what is in an archive and how it is written; docs/export.md has its history. */
export const EXPORT_VERSION = 1;

export const readMe = `A copy of an organization of Agent Conversation Service.

Unpack all volumes into one folder: no two have a file in common.

<kind>/0001.jsonl             records, one JSON object a line, in UTF-8; the number is that of the volume
documents/originals/<id>.*    files as they were uploaded
documents/texts/<id>.md       what was read from them, as Markdown
manifests/0001.json           the files of a volume with their sizes in bytes and SHA-256
manifest.json                 what all volumes hold together; it is in the last one

Times are in ISO 8601, ids are UUIDs, and a field that ends in _id or _by names a record of another kind.
`;

export const totalOf = (counts: RecordCounts): number => Object.values(counts).reduce((sum, count) => sum + count, 0);

/** The sums of several. */
export function sumOf(all: readonly RecordCounts[]): RecordCounts {
  const sums: Record<string, number> = {};
  for (const counts of all) {
    for (const [kind, count] of Object.entries(counts)) sums[kind] = (sums[kind] ?? 0) + count;
  }
  return sums;
}

/** Of the whole export, for its last volume, which cannot say its own hash. */
export function manifestOf(
  order: {
    exportId: string;
    createdAt: Date;
    userId: string | null;
    reading: Reading;
    number: number;
    previous: readonly VolumeFacts[];
  },
  counts: RecordCounts,
): string {
  const { exportId, createdAt, userId, reading, number, previous } = order;
  const manifest = {
    format: 'agent-conversation-service-export',
    version: EXPORT_VERSION,
    export_id: exportId,
    org_id: reading.orgId,
    scope: reading.keys === null ? 'everything' : 'readable',
    requested_by: userId,
    created_at: createdAt.toISOString(),
    records: sumOf([...previous.map((volume) => volume.records), counts]),
    volumes: [
      ...previous.map((volume) => ({
        name: volumeName(exportId, volume.number),
        size_bytes: volume.sizeBytes,
        sha256: volume.sha256,
        records: volume.records,
      })),
      { name: volumeName(exportId, number), records: counts },
    ],
  };
  return `${JSON.stringify(manifest, null, 1)}\n`;
}
