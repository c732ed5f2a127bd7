import { median } from '../median.ts';
import { report, roundsOf } from '../report.ts';
import { chatModel, firstTokenMs } from './delayed-model.ts';
import type { MeasuredChat } from './measured-chat.ts';

const rounds = roundsOf(40);
const warmUps = 5;

/** P14: time from the question to its first token, compared with the model alone and with the retrieval alone. */
export async function measureFirstToken(chat: MeasuredChat): Promise<string[]> {
  const { api, model, agentId, retrieve } = chat;

  const product = (message: string) =>
    timed(async () => {
      const events = api.stream('/chat/stream', { agent_id: agentId, message });
      const first = await events.next();
      if (first.done || first.value.event !== 'token')
        throw new Error('The first event of the chat answer is not a token.');
      return () => drain(events);
    });
  const bareModel = (message: string) =>
    timed(async () => {
      const response = await fetch(`${model.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: chatModel, stream: true, messages: [{ role: 'user', content: message }] }),
      });
      const reader = response.body?.getReader();
      await reader?.read();
      return async () => reader?.cancel();
    });
  const search = (message: string) =>
    timed(async () => {
      await retrieve(message);
      return async () => undefined;
    });

  const measured: { product: number; model: number; retrieval: number }[] = [];
  for (let round = -warmUps; round < rounds; round++) {
    // Every question is unique, so that its embedding is never cached.
    const question = (of: string) => `How is the ${of} loan of case ${Math.abs(round)} repaid by month ${round + 7}?`;
    const times = {
      product: await product(question('first')),
      model: await bareModel(question('second')),
      retrieval: await search(question('third')),
    };
    if (round >= 0) measured.push(times);
  }
  const of = (fact: keyof (typeof measured)[number]) => median(measured.map((times) => times[fact]));
  const bare = of('model') + of('retrieval');
  const parts = measured.map((times) => times.model + times.retrieval);
  report({
    ...{ goal: 'P14', what: 'time to the first token above model call and retrieval', unit: 'ms', atMost: 15 },
    rounds: measured.map((times, round) => times.product - (parts[round] ?? Number.NaN)),
  });
  const ms = (value: number) => `${value.toFixed(1)} ms`;
  return [
    `P14: time to the first token; a model that takes ${firstTokenMs} ms; ${rounds} rounds in turns, medians`,
    '',
    '| | time |',
    '|---|---|',
    `| bare call of the model | ${ms(of('model'))} |`,
    `| retrieval alone | ${ms(of('retrieval'))} |`,
    `| both | ${ms(bare)} |`,
    `| POST /chat/stream | ${ms(of('product'))} |`,
    `| more than both | ${ms(of('product') - bare)} (${(of('product') / bare).toFixed(2)} times) |`,
  ];
}

/** Milliseconds of `work`; the function that it returns is cleanup, which is not measured. */
async function timed(work: () => Promise<() => Promise<unknown>>): Promise<number> {
  const beganAt = performance.now();
  const rest = await work();
  const ms = performance.now() - beganAt;
  await rest();
  return ms;
}

async function drain(events: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of events);
}
