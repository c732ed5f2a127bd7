// node first-chat.ts http://127.0.0.1:3000 handbook.md "Within how many days can goods be returned?"
import { openAsBlob } from 'node:fs';
import { basename } from 'node:path';
import { client } from './client/client.gen.ts';
import { createAgent, register, streamMessage, uploadDocument } from './client/index.ts';

const [baseUrl = '', path = '', message = ''] = process.argv.slice(2);
client.setConfig({ baseUrl });
const email = `${crypto.randomUUID()}@example.com`;
const account = await register({ body: { email, password: 'Correct-horse-1' } });
client.setConfig({ auth: account.data.access_token });

const file = new File([await openAsBlob(path)], basename(path));
const { data: document } = await uploadDocument({ body: { file }, headers: { Prefer: 'wait=60' } });
if (document.status !== 'succeeded') throw new Error(document.last_error?.message ?? `is ${document.status}`);

const persona = { agent_name: 'Guide', agent_prompt: 'Answer from the documents.', anchor_words: { returns: 5 } };
const { data: agent } = await createAgent({ body: persona });
const answer = await streamMessage({ body: { agent_id: agent.id, message } });
for await (const event of answer.stream) {
  if (event.type === 'token') process.stdout.write(event.t);
  if (event.type === 'error') throw new Error(event.detail);
  for (const [index, cited] of (event.type === 'done' ? event.citations : []).entries())
    console.log(`\n[${index + 1}] ${cited.document_name}, page ${cited.page_number}: ${cited.quote}`);
}
