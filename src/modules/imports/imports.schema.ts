import { z } from 'zod';
import { idField, oneLineField } from '#src/http/request/fields.ts';
import type { RemoteFileQuery } from '#src/ports/connectors.ts';
import type { ImportResult, ImportRunRow } from './imports.model.ts';

const maxWishes = 1_000;

const remoteText = oneLineField(4_096).min(1);

const wish = z
  .strictObject({
    file_id: remoteText.optional(),
    path: remoteText.optional().describe('From the root of the connection, as browse gives it.'),
    name: remoteText.optional().describe('Within `folder`.'),
    mime_type: remoteText.optional().describe('As browse gives it; the provider knows better, and it is not needed.'),
    folder: remoteText.optional().describe('In place of the `folder` of the request.'),
  })
  .refine(({ file_id, path, name }) => file_id ?? path ?? name, 'needs file_id, path or name')
  .meta({ anyOf: [{ required: ['file_id'] }, { required: ['path'] }, { required: ['name'] }] });

export const importFromConnectorBody = z.strictObject({
  connection_id: idField,
  files: z.array(wish).min(1).max(maxWishes).describe('Files, and folders with all that is below them.'),
  folder: remoteText.optional().describe('Where the files are that are told by their names; the root when omitted.'),
  target_folder_id: idField.optional().describe('Your personal root when omitted.'),
});

const codeAndMessage = z.strictObject({ code: z.string(), message: z.string() });

export const importResultsSchema = z
  .strictObject({
    results: z
      .array(
        z.strictObject({
          file_id: z.string().nullable(),
          document_id: idField.nullable().describe('Null before the file is here, and for one that failed.'),
          job_id: z.string().describe('The ingestion of the document; before there is one, the import.'),
          status: z.enum(['queued', 'unchanged', 'failed']),
          error: codeAndMessage.nullable(),
        }),
      )
      .describe('At most 1,000; `GET /jobs/{job_id}` of the import counts them all.'),
  })
  .meta({ id: 'ImportResults' });

export const startSyncBody = z.strictObject({
  accept_deletions: z
    .boolean()
    .default(false)
    .describe('Deletes however many documents whose files are gone; a sync that waits for that goes on.'),
});

const count = z.int().nonnegative();

export const syncRunSchema = z
  .strictObject({
    id: idField,
    job_id: z.string().describe('Of the newest sync of the connection: each has the same.'),
    status: z.enum(['queued', 'running', 'parked', 'succeeded', 'failed', 'cancelled']),
    mode: z.enum(['full', 'delta']).nullable().describe('Whether all is compared, or only what has changed.'),
    started_at: z.iso.datetime(),
    finished_at: z.iso.datetime().nullable(),
    added: count,
    updated: count,
    unchanged: count,
    deleted: count,
    failed: count,
    last_error: codeAndMessage
      .nullable()
      .describe('Why it stopped; of one that succeeded, how many files failed, and why most of them did.'),
  })
  .meta({ id: 'SyncRun' });

export const syncRunListSchema = z.strictObject({
  items: z.array(syncRunSchema),
  next_cursor: z.string().nullable(),
});

type ImportBody = z.output<typeof importFromConnectorBody>;

export function toWishes({ files, folder: defaultFolder }: ImportBody): RemoteFileQuery[] {
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
