import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import { type Member, readEvents, sendJson } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { startTcpProxy, type TcpProxy } from '#test/support/proxies.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

/** Ends before the lease of a round, so that it is the answer itself that ends it. */
const awayMs = isFullRun ? 15_000 : 3_000;

describe('F6: the API, when Postgres fails while an answer is written,', function () {
  this.timeout(120_000);
  let model: ScriptedModel;
  let postgres: TcpProxy;
  let stack: Stack;
  /** A process whose connection to the database is never cut. */
  let witness: Stack;
  let ada: Member;
  let chat_id: string;

  before(async () => {
    model = await startScriptedModel();
    witness = await startStack({ OPENAI_BASE_URL: model.baseUrl }, { workers: false });
    const url = new URL(witness.settings.DATABASE_URL ?? '');
    postgres = await startTcpProxy({ port: Number(url.port) });
    url.port = String(postgres.port);
    const settings = { ...witness.settings, DATABASE_URL: url.href, DATABASE_POOL_SIZE: '4' };
    stack = await startStack(settings, { workers: false });
    ada = await stack.signUp('Ada');
    const agent_id = await aPublishedAgent(ada);
    modelSays('Month by month.');
    ({ chat_id } = await ask(ada, { agent_id, message: 'How is a loan repaid?' }, 201));
  });
  after(async () => {
    for (const part of [stack, postgres, witness, model]) await part.close();
  });

  const modelSays = (text: string) => model.behave(() => ({ kind: 'answer', text }));
  const rounds = () => witness.container.db<Round>('rounds').where({ chatId: chat_id }).orderBy('round');
  const newest = async () => (await rounds()).at(-1);
  const post = (path: string, message: string) => sendJson(ada, 'POST', path, { chat_id, message, enable_rag: false });

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

  /** Begins a stream and reads its first token. @returns lets the model write the others, and reads all that follows */
  async function beginAnswer(message: string) {
    const written = Promise.withResolvers<void>();
    model.behave(() => ({ kind: 'answer', text: 'Year by year.', until: written.promise }));
    const events = await openChatStream(ada, { chat_id, message, enable_rag: false });
    await events.next();
    return () => {
      written.resolve();
      return collect(events);
    };
  }
  const done = ['token', 'token', 'done'];

  it('ends an answer that it cannot store in one error, refuses new requests with 503, and recovers', async () => {
    const finish = await beginAnswer('Is it repaid year by year?');
    postgres.cut();
    const cutAt = Date.now();
    const told = await finish();
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
    expect(answered).include({ chat_id, reply: 'Year by year.' });
    expect(await newest()).include({ round: 2, status: 'complete' });
  });

  it('stores the whole answer if the outage is short, and sends its readers every event', async () => {
    const finish = await beginAnswer('And a mortgage?');
    postgres.cut();
    await expectRefused();
    postgres.heal();
    await until('the database is back', async () => (await ada.raw('/chat')).status === 200);
    expect((await finish()).map(({ event }) => event)).deep.equal(done);
    const again = await collect(readEvents(await ada.raw(`/chat/${chat_id}/stream`)));
    expect(again.map(({ event }) => event)).deep.equal(['token', ...done]);
    expect(await newest()).include({ round: 3, status: 'complete', assistantReply: 'Year by year.' });
  });

  it('ends an answer whose transaction is cut in an error, and accepts the next message at once', async () => {
    const finish = await beginAnswer('And a credit?');
    const dropped = postgres.dropAnswerTo('update "rounds" set "assistant_reply"');
    const told = await finish();
    await dropped;
    expect(told.at(-1)).deep.include({ event: 'error' }).nested.property('data.code', 'service_unavailable');
    const failed = { round: 4, status: 'error', errorCode: 'service_unavailable', assistantReply: null };
    expect(await newest()).include(failed);
    modelSays('Year by year.');
    await ask(ada, { chat_id, message: 'And a credit?' }, 200);
  });

  it('stores an answer once although the response to its commit was lost, and sends the reader its end', async () => {
    const finish = await beginAnswer('And collateral?');
    const dropped = postgres.dropAnswerTo('COMMIT', 'update "rounds" set "assistant_reply"');
    expect((await finish()).map(({ event }) => event)).deep.equal(done);
    await dropped;
    const stored = (await rounds()).map(({ round, status }) => ({ round, status }));
    expect(stored).deep.equal([1, 2, 3, 4, 5].map((round) => ({ round, status: 'complete' })));
  });

  // It takes ten seconds of waiting.
  if (isFullRun)
    it('answers requests with 503 if no database connection becomes free', async () => {
      const held = await Promise.all(Array.from({ length: 4 }, () => stack.container.db.transaction()));
      for (const trx of held) await trx.raw('select 1');
      const answers = await Promise.all([post('/chat', 'Who waits?'), ada.raw('/chat')]);
      expect(answers.map(({ status }) => status)).deep.equal([503, 503]);
      await Promise.all(held.map((trx) => trx.rollback()));
      await ask(ada, { chat_id, message: 'Who waits?', enable_rag: false }, 200);
    });
});
