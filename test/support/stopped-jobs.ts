import type { JobDto } from '#src/modules/jobs/jobs.schema.ts';
import type { ApiClient } from './client.ts';
import type { ScriptedStack } from './scripted-stack.ts';
import { until } from './until.ts';

/** How the embedding model affects an ingestion: its run is parked, fails, or retries. */
const embedderStatus = { parked: 401, failed: 400, running: 503 } as const;

/** Ingests a text whose embedding fails until the job has this status; then the model works again. */
export async function stoppedIngestion(
  { model }: ScriptedStack,
  client: ApiClient,
  status: keyof typeof embedderStatus,
  folderId?: string,
): Promise<{ documentId: string; jobId: string }> {
  model.failEmbeddings(true, embedderStatus[status]);
  // A unique text, because embeddings are cached by text.
  const content = `The fox is quick, ${crypto.randomUUID()}.`;
  const folder = folderId === undefined ? {} : { target_folder_id: folderId };
  const paste = { name: 'note', content, source_format: 'text', ...folder };
  const { id } = (await client.post('/documents/paste', paste, 201)).body as { id: string };
  const jobId = `ingest-${id}-1`;
  await untilStatus(client, jobId, status);
  if (status !== 'running') model.failEmbeddings(false);
  return { documentId: id, jobId };
}

/** Waits for a status; others may come before it. */
export async function untilStatus(client: ApiClient, jobId: string, status: string): Promise<JobDto> {
  const ask = async () => {
    const job = (await client.get(`/jobs/${jobId}`, 200)).body as JobDto;
    return job.status === status && (status !== 'running' || job.stage === 'embed') && job;
  };
  // Allows for CPU contention with other tests.
  return until(`job ${jobId} has ${status}`, ask);
}
