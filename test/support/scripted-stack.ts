import type { JobDto } from '#src/modules/jobs/jobs.schema.ts';
import type { ApiClient } from './client.ts';
import { startScriptedModel } from './scripted-model.ts';
import { shared, startStack } from './stack.ts';
import { startToolProviders } from './tool-stack.ts';
import { until } from './until.ts';
import { startWebSite } from './web-site.ts';

export type ScriptedStack = Awaited<ReturnType<typeof startScriptedStack>>;

async function startScriptedStack() {
  const [model, site, tools] = await Promise.all([startScriptedModel(), startWebSite(), startToolProviders()]);
  const { brave, google, settings, place } = tools;
  const stack = await startStack({
    ...settings,
    ...model.settings,
    EGRESS_ALLOW: `${site.place},${place}`,
    HTTP_REQUEST_ALLOW: site.place,
    // Long enough for the alignment of every round, so that an answer shows that of its own round.
    ECHO_WAIT_MS: '10000',
  });
  const close = async () => {
    await stack.close();
    await Promise.all([model, site, brave, google].map((part) => part.close()));
  };
  return { ...stack, model, site, brave, google, close };
}

/**
 * The API and the workers with a chat model that does as it is told, a web of one site that tools may ask, and providers
 * of tools. Database and namespace are its own, so that no other worker, with the real model, takes its work.
 */
export const scriptedStack = shared(startScriptedStack);

/** How the embedding model affects an ingestion: its run is parked, fails, or retries. */
const embedderStatus = { parked: 401, failed: 400, running: 503 } as const;

/** Ingests a text whose embedding fails until the job has this status; then the model works again. */
export async function stoppedIngestion(
  { model }: Pick<ScriptedStack, 'model'>,
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

export async function untilStatus(client: ApiClient, jobId: string, status: string): Promise<JobDto> {
  const ask = async () => {
    const job = (await client.get(`/jobs/${jobId}`, 200)).body as JobDto;
    return job.status === status && (status !== 'running' || job.stage === 'embed') && job;
  };
  return until(`job ${jobId} has ${status}`, ask);
}
