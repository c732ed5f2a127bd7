import { z } from 'zod';
import { uuidField } from '#src/http/request/fields.ts';
import { jobStatusField, lastErrorField } from '#src/http/shared-schemas.ts';
import type { ExportView } from './exports.service.ts';

export const requestedExportSchema = z.strictObject({
  export_id: uuidField,
  job_id: z.string().describe('For `GET /jobs/{job_id}`.'),
});

export const exportSchema = z
  .strictObject({
    export_id: uuidField,
    job_id: z.string(),
    status: jobStatusField.describe('Status of the job. The export can be downloaded once it has succeeded.'),
    created_by: uuidField.describe('The admin who requested the export. It holds what they may read.'),
    created_at: z.iso.datetime(),
    completed_at: z.iso.datetime().nullable(),
    expires_at: z.iso
      .datetime()
      .describe('When the export expires. It is deleted with its files within the next hour.'),
    progress: z.strictObject({ done: z.int(), total: z.int().nullable(), unit: z.literal('records') }),
    last_error: lastErrorField.nullable(),
    volumes: z
      .array(
        z.strictObject({
          name: z.string(),
          size_bytes: z.int(),
          sha256: z.string(),
          download_url: z
            .url()
            .nullable()
            .describe('Valid for `DOWNLOAD_URL_SECONDS`; null until the export is complete, and for all other admins.'),
        }),
      )
      .describe('ZIP archives. Unpack all of them into one folder.'),
  })
  .meta({ id: 'Export' });

export const exportListSchema = z.strictObject({ items: z.array(exportSchema), next_cursor: z.string().nullable() });

export function toExportDto(view: ExportView): z.infer<typeof exportSchema> {
  return {
    export_id: view.id,
    job_id: view.jobId,
    status: view.status,
    created_by: view.createdBy,
    created_at: view.createdAt.toISOString(),
    completed_at: view.completedAt?.toISOString() ?? null,
    expires_at: view.expiresAt.toISOString(),
    progress: { done: view.progressDone, total: view.progressTotal, unit: 'records' },
    last_error: view.errorCode === null ? null : { code: view.errorCode, message: view.errorMessage ?? '' },
    volumes: view.volumes.map(({ name, sizeBytes, sha256, downloadUrl }) => {
      return { name, size_bytes: sizeBytes, sha256, download_url: downloadUrl };
    }),
  };
}
