import { expect } from 'chai';
import { type Member, readEvents, type StreamEvent } from './client.ts';
import type { Random } from './seeded.ts';

/** A member who sends requests all the time, and what the service has answered so far. */
export type Caller = {
  member: Member;
  agentId: string;
  /** The ids of all documents that were accepted. */
  documents: string[];
  refreshToken: string;
  isRefreshing: boolean;
};

export async function openCaller(member: Member, agentId: string): Promise<Caller> {
  const caller = { member, agentId, documents: [], refreshToken: member.refreshToken, isRefreshing: false };
  await paste(caller, 'The first note says that tides follow the moon.');
  return caller;
}

/** Sends requests at a fixed rate, however long the answers take. Repeats only a stream that was cut off. */
export function createSteadyLoad({ callers, random, requestsPerSecond }: Load) {
  const timesMs: number[] = [];
  const failures: string[] = [];
  const streams: Streams = { streams: 0, returns: 0, cutOff: 0 };
  const running = new Set<Promise<void>>();
  const begun = new Set<string>();
  const deck = operations.flatMap(({ weight, ...operation }) => Array.from({ length: weight }, () => operation));

  async function run({ name, isStream, run }: Operation): Promise<void> {
    const beganMs = performance.now();
    try {
      await run({ caller: random.pick(callers), random, streams });
      if (!isStream) timesMs.push(performance.now() - beganMs);
    } catch (error) {
      failures.push(`${new Date().toISOString()} ${name}: ${messageOf(error)}`);
    }
  }
  const timer = setInterval(() => {
    // Each operation comes early, and then as often as its weight says.
    const next = operations.find(({ name }) => !begun.has(name)) ?? random.pick(deck as [Operation, ...Operation[]]);
    begun.add(next.name);
    const settled = run(next).finally(() => running.delete(settled));
    running.add(settled);
  }, 1_000 / requestsPerSecond);

  return {
    /** How many requests have been answered so far. */
    answered: () => timesMs.length,
    stop: () => clearInterval(timer),
    async settled() {
      await Promise.all(running);
      timesMs.sort((a, b) => a - b);
      const p95Ms = Math.round(timesMs[Math.floor(timesMs.length * 0.95)] ?? 0);
      return { requests: timesMs.length + failures.length, failures, p95Ms, ...streams };
    },
  };
}

type Load = { callers: readonly [Caller, ...Caller[]]; random: Random; requestsPerSecond: number };
/** How many streams were opened, continued at any process, and ended by a restart. */
type Streams = { streams: number; returns: number; cutOff: number };
type Asked = { caller: Caller; random: Random; streams: Streams };
type Operation = { name: string; isStream?: boolean; run(asked: Asked): Promise<unknown> };

const aDocument = ({ caller, random }: Asked) => random.pick(caller.documents as [string, ...string[]]);

const operations: readonly (Operation & { weight: number })[] = [
  { name: 'list', weight: 5, run: ({ caller }) => caller.member.get('/documents?limit=10', 200) },
  { name: 'read', weight: 5, run: (asked) => asked.caller.member.get(`/documents/${aDocument(asked)}`, 200) },
  { name: 'search', weight: 3, run: ({ caller }) => caller.member.get('/documents/search?q=tides', 200) },
  { name: 'jobs', weight: 2, run: ({ caller }) => caller.member.get('/jobs?limit=10', 200) },
  { name: 'file', weight: 2, run: (asked) => asked.caller.member.get(`/documents/${aDocument(asked)}/file`, 200) },
  { name: 'paste', weight: 1, run: ({ caller }) => paste(caller, `${crypto.randomUUID()} tells of tides.`) },
  { name: 'upload', weight: 1, run: upload },
  { name: 'download', weight: 1, run: download },
  {
    name: 'rename',
    weight: 2,
    run: (asked) => asked.caller.member.patch(`/documents/${aDocument(asked)}`, { name: crypto.randomUUID() }, 200),
  },
  { name: 'chat', weight: 2, run: ({ caller }) => caller.member.post('/chat', question(caller, 'How?'), 201) },
  { name: 'stream', weight: 3, isStream: true, run: (asked) => stream(asked, 'How is a loan repaid?') },
  { name: 'long stream', weight: 1, isStream: true, run: (asked) => stream(asked, 'Tell me at length about loans.') },
  { name: 'refresh', weight: 1, run: ({ caller }) => refresh(caller) },
  { name: 'login', weight: 1, run: ({ caller }) => logIn(caller) },
];

const question = ({ agentId }: Caller, message: string) => ({ agent_id: agentId, message, enable_rag: false });

async function paste({ member, documents }: Caller, content: string): Promise<void> {
  const sent = { name: crypto.randomUUID(), content, source_format: 'text' };
  documents.push(Object((await member.post('/documents/paste', sent, 201)).body).id);
}

async function upload({ caller: { member, documents } }: Asked): Promise<void> {
  const name = crypto.randomUUID();
  const file = { name: `${name}.md`, content: `# Tides\n\nThe moon draws the sea. ${name}` };
  documents.push(Object((await member.upload('/documents', file, 201)).body).id);
}

/** Downloads from the store by a signed URL. */
async function download(asked: Asked): Promise<void> {
  const { url } = Object((await asked.caller.member.get(`/documents/${aDocument(asked)}/download-url`, 200)).body);
  const file = await fetch(url);
  expect([file.status, (await file.text()).length > 0]).deep.equal([200, true]);
}

/** A refresh token is used once: logs in while another refresh is under way. */
async function refresh(caller: Caller): Promise<void> {
  if (caller.isRefreshing) return logIn(caller);
  caller.isRefreshing = true;
  try {
    const { body } = await caller.member.post('/auth/refresh_tokens', { refresh_token: caller.refreshToken }, 200);
    caller.refreshToken = Object(body).refresh_token;
  } finally {
    caller.isRefreshing = false;
  }
}

async function logIn({ member }: Caller): Promise<void> {
  await member.post('/auth/login', { username: member.email, password: member.password }, 200);
}

/** Reads an answer to its end: leaves now and then, continues at any process, and asks again where a restart ended it. */
async function stream({ caller, random, streams }: Asked, message: string): Promise<void> {
  const { member } = caller;
  streams.streams += 1;
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify(question(caller, message));
  const response = await member.raw('/chat/stream', { method: 'POST', headers, body });
  const path = response.headers.get('content-location') ?? '';
  const leavesAfter = random.next() < 0.3 ? random.between(1, 20) : Number.POSITIVE_INFINITY;
  let seen = await readOn(response, leavesAfter, '');
  // The process only showed an answer that another one writes, or the reader has left: the answer goes on.
  while (seen.last.event === 'token' || (seen.last.event === 'error' && !codeOf(seen.last))) {
    streams.returns += 1;
    const watch = await member.raw(path, { headers: { 'last-event-id': seen.id } });
    seen = await readOn(watch, Number.POSITIVE_INFINITY, seen.id);
  }
  if (seen.last.event === 'done') return;
  expect(codeOf(seen.last), JSON.stringify(seen.last)).equal('interrupted');
  streams.cutOff += 1;
  const again = { ...question(caller, 'And now briefly?'), chat_id: path.split('/')[2] };
  await member.post('/chat', again, 200);
}

type Seen = { last: StreamEvent; id: string };

const codeOf = ({ data }: StreamEvent): unknown => Object(data).code;

/** Reads on. Fails if an event follows `done` or `error`, or if the stream ends without either. */
async function readOn(response: Response, leavesAfter: number, lastId: string): Promise<Seen> {
  expect(response.status, `${response.url} answered ${response.status}`).equal(200);
  let seen: Seen | undefined;
  let count = 0;
  for await (const last of readEvents(response)) {
    expect(seen?.last.event, 'an event after the last one').not.match(/^(done|error)$/);
    seen = { last, id: last.id ?? seen?.id ?? lastId };
    count += 1;
    if (last.event === 'token' && count >= leavesAfter) return seen;
  }
  if (seen === undefined || seen.last.event === 'token') throw new Error('a stream ended without a last event');
  return seen;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
