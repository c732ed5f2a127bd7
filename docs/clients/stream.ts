// node stream.ts http://127.0.0.1:3000 <access token> <id of an agent> "Within how many days can goods be returned?"
import { EventSourceParserStream } from 'eventsource-parser/stream';
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.d.ts';

const [baseUrl = '', token = '', agent_id = '', message = ''] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token}` } });
const { data, error } = await client.POST('/chat/stream', { body: { agent_id, message }, parseAs: 'stream' });
if (!data) throw new Error(error?.detail);

const events = data.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
for await (const { data: text } of events) {
  const event: components['schemas']['ChatEvent'] = JSON.parse(text);
  if (event.type === 'token') process.stdout.write(event.t);
  if (event.type === 'error') throw new Error(event.detail);
  if (event.type === 'done') console.log(`\n${event.citations.map(({ document_name }) => document_name).join(', ')}`);
}
