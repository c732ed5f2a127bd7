import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ApiClient } from './demo/api-client.ts';

/** Number of objects of each kind, so that some remain when Schemathesis deletes others. */
const COUNT = 4;

type Made = { id: string; head_version_id: string; parse_job_id: string; chat_id: string };

/**
 * Creates folders, documents, agents and chats whose ids Schemathesis uses as path parameters.
 * @param folder gets a file `<name>.dict` for each path parameter, with one quoted id per line
 */
export async function createSchemaFixtures(api: ApiClient, folder: string): Promise<void> {
  const roots = await api.get<{ id: string; system_role: string }[]>('/folders');
  const parent_id = roots.find(({ system_role }) => system_role === 'personal_root')?.id;
  const things = [];
  for (let number = 1; number <= COUNT; number += 1) things.push(await makeOne(api, `Number ${number}`, parent_id));
  await mkdir(folder, { recursive: true });
  for (const name of ['folder_id', 'document_id', 'job_id', 'draft_id', 'version_id', 'agent_id', 'chat_id'] as const) {
    const lines = things.map((ids) => `"${ids[name]}"\n`);
    await writeFile(join(folder, `${name}.dict`), lines.join(''));
  }
}

async function makeOne(api: ApiClient, name: string, parent_id: string | undefined) {
  const make = (path: string, body: object) => api.post<Made>(path, body);
  const folder = await make('/folders', { name, parent_id });
  const text = { name, content: `All that is known of ${name}.`, source_format: 'text' };
  const document = await make('/documents/paste', text);
  const fields = { agent_name: name, agent_prompt: `You know ${name}.`, anchor_words: { [name]: 5 } };
  const { id: draft_id, head_version_id: version_id } = await make('/agent-drafts', fields);
  const agent = await make(`/agent-drafts/${draft_id}/publish`, { version_id });
  const { chat_id } = await make('/chat', { agent_id: agent.id, message: `What is ${name}?` });
  return {
    folder_id: folder.id,
    document_id: document.id,
    job_id: document.parse_job_id,
    draft_id,
    version_id,
    agent_id: agent.id,
    chat_id,
  };
}
