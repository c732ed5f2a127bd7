import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import type { JobDto } from '#src/modules/jobs/jobs.schema.ts';
import type { ApiClient, Member } from './client.ts';
import type { ScriptedStack } from './scripted-stack.ts';
import { until } from './until.ts';

/** What the embedder does to an ingestion: its run waits, fails for good, or tries on and on. */
const embedderStatus = { parked: 401, failed: 400, running: 503 } as const;

/** Ingests a text that stops at its embedding with this status. The embedder works again when it has. */
export async function stoppedIngestion(
  { model }: ScriptedStack,
  client: ApiClient,
  status: keyof typeof embedderStatus,
  folderId?: string,
): Promise<{ documentId: string; jobId: string }> {
  model.failEmbeddings(true, embedderStatus[status]);
  // A text of its own: vectors are kept by their texts.
  const content = `The fox is quick, ${crypto.randomUUID()}.`;
  const folder = folderId === undefined ? {} : { target_folder_id: folderId };
  const paste = { name: 'note', content, source_format: 'text', ...folder };
  const { id } = (await client.post('/documents/paste', paste, 201)).body as { id: string };
  const jobId = `ingest-${id}-1`;
  await untilStatus(client, jobId, status);
  if (status !== 'running') model.failEmbeddings(false);
  return { documentId: id, jobId };
}

/** A job on its way may pass any other status. */
export async function untilStatus(client: ApiClient, jobId: string, status: string): Promise<JobDto> {
  const ask = async () => {
    const job = (await client.get(`/jobs/${jobId}`, 200)).body as JobDto;
    return job.status === status && (status !== 'running' || job.stage === 'embed') && job;
  };
  // On a machine that other tests keep busy.
  return until(`job ${jobId} has ${status}`, ask);
}

export async function systemFolder(member: Member, role: 'org_root' | 'personal_root'): Promise<string> {
  const folders = folderTreeNodeSchema.array().parse((await member.get('/folders', 200)).body);
  const folder = folders.find(({ system_role }) => system_role === role);
  if (folder === undefined) throw new Error(`There is no ${role}.`);
  return folder.id;
}
