import { z } from 'zod';
import { oneLineField, uuidField } from '#src/http/request/fields.ts';
import { jobStatusField, lastErrorField } from '#src/http/shared-schemas.ts';
import type { RemoteFileQuery } from '#src/ports/connectors.ts';
import type { ImportResult, ImportRunRow } from './imports.model.ts';

const maxFiles = 1_000;

const remoteText = oneLineField(4_096).min(1);

const fileQuery = z
  .strictObject({
    file_id: remoteText.optional(),
    path: remoteText.optional().describe('Path from the root of the connection, as browse returns it.'),
    name: remoteText.optional().describe('Name of a file in `folder`.'),
    mime_type: remoteText.optional().describe('Ignored: the type comes from the provider.'),
    folder: remoteText.optional().describe('Overrides the `folder` of the request.'),
  })
  .refine(({ file_id, path, name }) => file_id ?? path ?? name, 'needs file_id, path or name')
  .meta({ anyOf: [{ required: ['file_id'] }, { required: ['path'] }, { required: ['name'] }] });

export const importFromConnectorBody = z.strictObject({
  connection_id: uuidField,
  files: z.array(fileQuery).min(1).max(maxFiles).describe('Files, and folders with all files below them.'),
  folder: remoteText.optional().describe('Folder of files that are given by `name`; the root when omitted.'),
  target_folder_id: uuidField.optional().describe('Your personal root when omitted.'),
});

export const importResultsSchema = z
  .strictObject({
    results: z
      .array(
        z.strictObject({
          file_id: z.string().nullable(),
          document_id: uuidField.nullable().describe('Null until the file is imported, and if it failed.'),
          job_id: z.string().describe('The job that ingests the document; until it exists, the job of the import.'),
          status: z.enum(['queued', 'unchanged', 'failed']),
          error: lastErrorField.nullable(),
        }),
      )
      .describe('At most 1,000 results; `GET /jobs/{job_id}` of the import counts all files.'),
  })
  .meta({ id: 'ImportResults' });

export const startSyncBody = z.strictObject({
  accept_deletions: z
    .boolean()
    .default(false)
    .describe('Confirms the deletion of many documents whose files are missing; a sync that waits for this continues.'),
});

const count = z.int().nonnegative();

export const syncRunSchema = z
  .strictObject({
    id: uuidField,
    job_id: z.string().describe('The same for all syncs of the connection; shows the newest one.'),
    status: jobStatusField,
    mode: z
      .enum(['full', 'delta'])
      .nullable()
      .describe('Whether the sync compares all files, or only changes since the last sync.'),
    started_at: z.iso.datetime(),
    finished_at: z.iso.datetime().nullable(),
    added: count,
    updated: count,
    unchanged: count,
    deleted: count,
    failed: count,
    last_error: lastErrorField
      .nullable()
      .describe('Why the sync stopped. For one that succeeded: how many files failed, and the most frequent error.'),
  })
  .meta({ id: 'SyncRun' });

export const syncRunListSchema = z.strictObject({
  items: z.array(syncRunSchema),
  next_cursor: z.string().nullable(),
});

type ImportBody = z.output<typeof importFromConnectorBody>;

export function toRemoteFileQueries({ files, folder: defaultFolder }: ImportBody): RemoteFileQuery[] {
  return files.map(({ file_id: fileId, path, name, folder = defaultFolder }) => ({
    ...(fileId !== undefined && { fileId }),
    ...(path !== undefined && { path }),
    ...(name !== undefined && { name }),
    ...(folder !== undefined && { folder }),
  }));
}

export function toImportResultDto(result: ImportResult): z.infer<typeof importResultsSchema>['results'][number] {
  const { fileId: file_id, documentId: document_id, jobId: job_id, status, error } = result;
  return { file_id, document_id, job_id, status, error };
}

export function toSyncRunDto(run: ImportRunRow): z.infer<typeof syncRunSchema> {
  const { id, jobId: job_id, status, mode, added, updated, unchanged, deleted, failed } = run;
  return {
    ...{ id, job_id, status, mode, added, updated, unchanged, deleted, failed },
    started_at: run.createdAt.toISOString(),
    finished_at: run.finishedAt?.toISOString() ?? null,
    last_error: run.errorCode === null ? null : { code: run.errorCode, message: run.errorMessage ?? '' },
  };
}
