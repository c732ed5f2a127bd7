// node first-chat.ts http://127.0.0.1:3000 handbook.md "Within how many days can goods be returned?"
import { openAsBlob } from 'node:fs';
import { basename } from 'node:path';
import { client } from './client/client.gen.ts';
import { createDraft, publishVersion, register, streamMessage, uploadDocument, watchJob } from './client/index.ts';

const [baseUrl = '', path = '', message = ''] = process.argv.slice(2);
client.setConfig({ baseUrl });
const email = `${crypto.randomUUID()}@example.com`;
const account = await register({ body: { email, password: 'Correct-horse-1' } });
client.setConfig({ auth: account.data.access_token });

const file = new File([await openAsBlob(path)], basename(path));
const { data: document } = await uploadDocument({ body: { file } });
const job = await watchJob({ path: { job_id: document.embedding_job_id ?? '' } });
for await (const event of job.stream) if (event.type === 'error') throw new Error(event.detail);

const persona = { agent_name: 'Guide', agent_prompt: 'Answer from the documents.', anchor_words: { returns: 5 } };
const { data: draft } = await createDraft({ body: persona });
const version_id = draft.head_version_id;
const { data: agent } = await publishVersion({ path: { draft_id: draft.id }, body: { version_id } });

const answer = await streamMessage({ body: { agent_id: agent.id, message } });
for await (const event of answer.stream) {
  if (event.type === 'token') process.stdout.write(event.t);
  if (event.type === 'error') throw new Error(event.detail);
  if (event.type !== 'done') continue;
  for (const [index, { document_name, page_number, quote }] of event.citations.entries())
    console.log(`\n[${index + 1}] ${document_name}, page ${page_number}: ${quote}`);
}
