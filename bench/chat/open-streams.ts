import { report } from '../report.ts';
import type { MeasuredChat } from './measured-chat.ts';

const streams = 1_000;
const openedAtOnce = 20;

/** P14: memory of one API process while many answer streams are open. */
export async function measureOpenStreams({ api, model, agentId, apiMemory }: MeasuredChat): Promise<string[]> {
  const before = await apiMemory();
  const release = model.hold();
  const open: AsyncGenerator<{ event: string }>[] = [];
  await Promise.all(
    Array.from({ length: openedAtOnce }, async () => {
      while (open.length < streams) {
        const message = `How is loan ${open.length} repaid?`;
        const events = api.stream('/chat/stream', { agent_id: agentId, message, enable_rag: false });
        open.push(events);
        const first = await events.next();
        if (first.done || first.value.event !== 'token')
          throw new Error('The first event of an answer stream is not a token.');
      }
    }),
  );
  const during = await apiMemory();
  release();
  const ends = await Promise.all(open.map(lastOf));
  const done = ends.filter((event) => event === 'done').length;
  report({
    ...{ goal: 'P14', what: `RSS of one process with ${open.length} open streams`, unit: 'MB' },
    ...{ rounds: during / 1024 ** 2, atMost: 500 },
  });
  const mb = (bytes: number) => `${(bytes / 1024 ** 2).toFixed(0)} MB`;
  return [
    `P14: ${open.length} open streams of answers on one process; ${done} of them ended with the whole answer`,
    '',
    '| | RSS |',
    '|---|---|',
    `| before | ${mb(before)} |`,
    `| while all are open | ${mb(during)} |`,
    `| when all have ended | ${mb(await apiMemory())} |`,
  ];
}

async function lastOf(events: AsyncIterable<{ event: string }>): Promise<string | undefined> {
  let last: string | undefined;
  for await (const { event } of events) last = event;
  return last;
}
