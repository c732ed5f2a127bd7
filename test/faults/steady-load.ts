import { expect } from 'chai';
import { anUpload } from '#test/support/builders.ts';
import { type Member, readEvents, type StreamEvent, sendJson } from '#test/support/client.ts';
import type { Random } from '#test/support/seeded.ts';

/** A member who sends requests all the time, with the ids of the documents that were accepted. */
export type Caller = Member & { agentId: string; documents: string[]; isRefreshing: boolean };

export async function openCaller(member: Member, agentId: string): Promise<Caller> {
  const caller = { ...member, agentId, documents: [], isRefreshing: false };
  await paste(caller, 'The first note says that tides follow the moon.');
  return caller;
}

type Load = { callers: readonly [Caller, ...Caller[]]; random: Random; requestsPerSecond: number };
type Asked = { caller: Caller; random: Random; streams: { opened: number; returns: number; cutOff: number } };
type Operation = { name: string; weight: number; isStream?: boolean; run(asked: Asked): Promise<unknown> };

/** Sends requests at a fixed rate, however long the answers take. Repeats only a stream that was cut off. */
export function createSteadyLoad({ callers, random, requestsPerSecond }: Load) {
  const timesMs: number[] = [];
  const failures: string[] = [];
  const streams = { opened: 0, returns: 0, cutOff: 0 };
  const running = new Set<Promise<void>>();
  // Each operation comes early, and then as often as its weight says.
  const first = [...operations];
  const deck = operations.flatMap((operation) => Array<Operation>(operation.weight).fill(operation));

  async function run({ name, isStream, run }: Operation): Promise<void> {
    const beganMs = performance.now();
    try {
      await run({ caller: random.pick(callers), random, streams });
      if (!isStream) timesMs.push(performance.now() - beganMs);
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
      failures.push(`${new Date().toISOString()} ${name}: ${error}${cause}`);
    }
  }
  const timer = setInterval(() => {
    const settled = run(first.shift() ?? random.pick(deck as [Operation])).finally(() => running.delete(settled));
    running.add(settled);
  }, 1_000 / requestsPerSecond);

  return {
    answered: () => timesMs.length,
    stop: () => clearInterval(timer),
    async settled() {
      await Promise.all(running);
      timesMs.sort((a, b) => a - b);
      const p95Ms = Math.round(timesMs[Math.floor(timesMs.length * 0.95)] ?? 0);
      return { requests: timesMs.length + failures.length, failures, p95Ms, streams };
    },
  };
}

const aDocument = ({ caller, random }: Asked) => `/documents/${random.pick(caller.documents as [string])}`;
const question = ({ agentId }: Caller, message: string) => ({ agent_id: agentId, message, enable_rag: false });

const operations: readonly Operation[] = [
  { name: 'list', weight: 5, run: ({ caller }) => caller.get('/documents?limit=10', 200) },
  { name: 'read', weight: 5, run: (asked) => asked.caller.get(aDocument(asked), 200) },
  { name: 'search', weight: 3, run: ({ caller }) => caller.get('/documents/search?q=tides', 200) },
  { name: 'jobs', weight: 2, run: ({ caller }) => caller.get('/jobs?limit=10', 200) },
  { name: 'file', weight: 2, run: (asked) => asked.caller.get(`${aDocument(asked)}/file`, 200) },
  { name: 'paste', weight: 1, run: ({ caller }) => paste(caller, `${crypto.randomUUID()} tells of tides.`) },
  { name: 'upload', weight: 1, run: upload },
  { name: 'download', weight: 1, run: download },
  {
    name: 'rename',
    weight: 2,
    run: (asked) => asked.caller.patch(aDocument(asked), { name: crypto.randomUUID() }, 200),
  },
  { name: 'chat', weight: 2, run: ({ caller }) => caller.post('/chat', question(caller, 'How?'), 201) },
  { name: 'stream', weight: 3, isStream: true, run: (asked) => stream(asked, 'How is a loan repaid?') },
  { name: 'long stream', weight: 1, isStream: true, run: (asked) => stream(asked, 'Tell me at length about loans.') },
  { name: 'refresh', weight: 1, run: ({ caller }) => refresh(caller) },
  { name: 'login', weight: 1, run: ({ caller }) => logIn(caller) },
];

async function paste(caller: Caller, content: string): Promise<void> {
  const sent = { name: crypto.randomUUID(), content, source_format: 'text' };
  caller.documents.push(Object((await caller.post('/documents/paste', sent, 201)).body).id);
}

async function upload({ caller }: Asked): Promise<void> {
  const name = crypto.randomUUID();
  const file = { name: `${name}.md`, content: `# Tides\n\nThe moon draws the sea. ${name}` };
  caller.documents.push((await anUpload(caller, file)).id);
}

async function download(asked: Asked): Promise<void> {
  const { url } = Object((await asked.caller.get(`${aDocument(asked)}/download-url`, 200)).body);
  const file = await fetch(url);
  expect([file.status, (await file.text()).length > 0]).deep.equal([200, true]);
}

/** A refresh token is used once: logs in while another refresh is under way. */
async function refresh(caller: Caller): Promise<void> {
  if (caller.isRefreshing) return logIn(caller);
  caller.isRefreshing = true;
  try {
    const { body } = await caller.post('/auth/refresh_tokens', { refresh_token: caller.refreshToken }, 200);
    caller.refreshToken = Object(body).refresh_token;
  } finally {
    caller.isRefreshing = false;
  }
}

async function logIn({ post, email, password }: Caller): Promise<void> {
  await post('/auth/login', { username: email, password }, 200);
}

/**
 * Reads an answer to its end: leaves now and then, continues at any process, and asks again where a restart ended it.
 * What all reads gave is one whole answer, whose events are numbered without a gap or a repetition.
 */
async function stream({ caller, random, streams }: Asked, message: string): Promise<void> {
  streams.opened += 1;
  const seen: StreamEvent[] = [];
  const leavesAfter = () => (random.next() < 0.3 ? random.between(1, 20) : Number.POSITIVE_INFINITY);
  const response = await sendJson(caller, 'POST', '/chat/stream', question(caller, message));
  const path = response.headers.get('content-location') ?? '';
  let last = await readOn(response, seen, leavesAfter());
  // The process only showed an answer that another one writes, or the reader has left: the answer goes on.
  while (last.event === 'token' || (last.event === 'error' && !codeOf(last))) {
    streams.returns += 1;
    const headers = { 'last-event-id': seen.at(-1)?.id ?? '' };
    last = await readOn(await caller.raw(path, { headers }), seen, leavesAfter());
  }
  // The number of an error follows from the attempt, so that it comes after all that the attempt may have sent.
  const numbered = seen.filter(({ event }) => event !== 'error');
  expect(numbered.map(({ id }) => id)).deep.equal(numbered.map((_, index) => `1:${index + 1}`));
  if (last.event === 'done') {
    const tokens = seen.map(({ event, data }) => (event === 'token' ? Object(data).t : ''));
    expect(tokens.join('')).equal(Object(last.data).reply);
    return;
  }
  expect(codeOf(last), JSON.stringify(last)).equal('interrupted');
  streams.cutOff += 1;
  await caller.post('/chat', { ...question(caller, 'And now briefly?'), chat_id: path.split('/')[2] }, 200);
}

const codeOf = ({ data }: StreamEvent): unknown => Object(data).code;

/** Reads on. Fails if an event follows `done` or `error`, or if the stream ends without either. */
async function readOn(response: Response, seen: StreamEvent[], leavesAfter: number): Promise<StreamEvent> {
  expect(response.status, `${response.url} answered ${response.status}`).equal(200);
  let last: StreamEvent | undefined;
  let count = 0;
  for await (const event of readEvents(response)) {
    expect(last?.event, 'an event after the last one').not.match(/^(done|error)$/);
    last = event;
    // The end of a watch is no event of the answer, and has no number.
    if (event.id !== undefined) seen.push(event);
    count += 1;
    if (event.event === 'token' && count >= leavesAfter) return event;
  }
  if (last === undefined || last.event === 'token') throw new Error('a stream ended without a last event');
  return last;
}
