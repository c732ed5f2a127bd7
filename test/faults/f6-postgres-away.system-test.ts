import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { startTcpProxy, type TcpProxy } from '#test/support/tcp-proxy.ts';
import { until } from '#test/support/until.ts';

/** Ended before the lease of a round, so that it is the answer itself that ends it. */
const awayMs = isFullRun ? 15_000 : 3_000;

describe('F6: Postgres that is away while answers are written', function () {
  this.timeout(120_000);
  let model: ScriptedModel;
  let postgres: TcpProxy;
  let stack: Stack;
  /** Sees the database all the time. */
  let witness: Stack;
  let ada: Member;
  let chatId: string;

  before(async () => {
    model = await startScriptedModel();
    witness = await startStack({ OPENAI_BASE_URL: model.baseUrl }, { workers: false });
    const direct = new URL(witness.settings.DATABASE_URL ?? '');
    postgres = await startTcpProxy({ port: Number(direct.port) });
    const url = new URL(direct);
    url.port = String(postgres.port);
    const settings = { DATABASE_URL: url.href, DATABASE_POOL_SIZE: '4' };
    stack = await startStack({ ...witness.settings, ...settings }, { workers: false });
    ada = await stack.signUp('Ada');
    const agentId = await aPublishedAgent(ada);
    model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
    chatId = (await ask(ada, { agent_id: agentId, message: 'How is a loan repaid?' }, 201)).chat_id;
  });
  after(async () => {
    await stack.close();
    await postgres.close();
    await witness.close();
    await model.close();
  });

  const rounds = () => witness.container.db<Round>('rounds').where({ chatId }).orderBy('round');
  const newest = async () => (await rounds()).at(-1);
  const post = (path: string, message: string) =>
    ada.raw(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ chat_id: chatId, message, enable_rag: false }),
    });

  /** New requests are refused in a way that says when to come again. */
  async function expectRefused(): Promise<void> {
    const answers = await Promise.all([post('/chat', 'And now?'), post('/chat/stream', 'And now?'), ada.raw('/chat')]);
    for (const answer of answers) {
      expect(answer.status).equal(503);
      expect(Number(answer.headers.get('retry-after'))).above(0);
      expect(await answer.json()).include({ code: 'service_unavailable' });
    }
    expect((await ada.raw('/readyz')).status).equal(503);
  }

  /** A stream that has had its first token; `finish` lets the model write the rest. */
  async function beginAnswer(message: string) {
    const written = Promise.withResolvers<void>();
    model.behave(() => ({ kind: 'answer', text: 'Year by year.', until: written.promise }));
    const events = await openChatStream(ada, { chat_id: chatId, message, enable_rag: false });
    await events.next();
    return { events, finish: () => written.resolve() };
  }

  it('an answer that cannot be stored ends in one error, new requests are 503, and all goes on once it is back', async () => {
    const { events, finish } = await beginAnswer('Is it repaid year by year?');
    postgres.cut();
    const cutAt = Date.now();
    finish();
    const told = await collect(events);
    expect(told.map(({ event }) => event)).deep.equal(['token', 'token', 'error']);
    expect(told.at(-1)?.data).include({ code: 'service_unavailable' });
    do await expectRefused();
    while (Date.now() - cutAt < awayMs);

    postgres.heal();
    const healedAt = Date.now();
    const answered = await until('a message is answered', async () => {
      const answer = await post('/chat', 'Is it repaid year by year?');
      expect(answer.status).oneOf([200, 503, 409]);
      return answer.status === 200 && answer.json();
    });
    measured('answered after', Date.now() - healedAt, 5_000);
    expect(answered).include({ chat_id: chatId, reply: 'Year by year.' });
    expect(await newest()).include({ round: 2, status: 'complete' });
  });

  it('an answer that is written through a short outage is stored, and its readers miss nothing', async () => {
    const { events, finish } = await beginAnswer('And a mortgage?');
    postgres.cut();
    await expectRefused();
    postgres.heal();
    await until('the database is back', async () => (await ada.raw('/chat')).status === 200);
    finish();
    expect((await collect(events)).map(({ event }) => event)).deep.equal(['token', 'token', 'done']);
    const again = await ada.raw(`/chat/${chatId}/stream`);
    expect([...(await again.text()).matchAll(/^event: (\w+)$/gm)].map(([, event]) => event)).deep.equal([
      ...['token', 'token', 'token', 'done'],
    ]);
    expect(await newest()).include({ round: 3, status: 'complete', assistantReply: 'Year by year.' });
  });

  it('an answer whose transaction is cut is stored whole or ends in an error, and its round is free at once', async () => {
    const { events, finish } = await beginAnswer('And a credit?');
    const dropped = postgres.dropAnswerTo('update "rounds" set "assistant_reply"');
    finish();
    await dropped;
    const told = await collect(events);
    expect(told.at(-1)).deep.include({ event: 'error' }).nested.property('data.code', 'service_unavailable');
    expect(await newest()).include({
      round: 4,
      status: 'error',
      errorCode: 'service_unavailable',
      assistantReply: null,
    });
    model.behave(() => ({ kind: 'answer', text: 'Year by year.' }));
    await ask(ada, { chat_id: chatId, message: 'And a credit?' }, 200);
  });

  it('an answer whose commit is not heard of is stored once, and its reader hears of it', async () => {
    const { events, finish } = await beginAnswer('And collateral?');
    const dropped = postgres.dropAnswerTo('COMMIT', 'update "rounds" set "assistant_reply"');
    finish();
    await dropped;
    expect((await collect(events)).map(({ event }) => event)).deep.equal(['token', 'token', 'done']);
    expect((await rounds()).map(({ round, status }) => ({ round, status }))).deep.equal(
      [1, 2, 3, 4, 5].map((round) => ({ round, status: 'complete' })),
    );
  });

  // Ten seconds of waiting.
  if (isFullRun)
    it('requests that find no free connection are 503 and none is 500', async () => {
      const held = await Promise.all(
        Array.from({ length: 4 }, async () => {
          const trx = await stack.container.db.transaction();
          await trx.raw('select 1');
          return trx;
        }),
      );
      await Promise.all([post('/chat', 'Who waits?'), ada.raw('/chat')]).then((answers) => {
        expect(answers.map(({ status }) => status)).deep.equal([503, 503]);
      });
      await Promise.all(held.map((trx) => trx.rollback()));
      await ask(ada, { chat_id: chatId, message: 'Who waits?', enable_rag: false }, 200);
    });
});
