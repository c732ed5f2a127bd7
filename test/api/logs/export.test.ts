import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { addAgent, addChat, addRound } from '#test/support/stored-rows.ts';
import { until } from '#test/support/until.ts';

const columns =
  'chat_id,title,description,agent_id,agent,started_at,round,at,type,error_code,model,user_content,assistant_reply,' +
  'scoring_pending,state,ewma,alignment_score,user_on_or_off_topic_streak,input_tokens,completion_tokens,cost_usd,' +
  'latency_ms';

describe('GET /logs/export', () => {
  let api: Stack;
  let ada: Member;
  let by: { orgId: string; createdBy: string; agentId: string };
  let chatId: string;

  before(async () => {
    api = await stack();
    ada = await api.signUp('Ada');
    by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
    const { db } = api.container;
    await addAgent(db, by);
    const startedAt = new Date('2026-03-01T10:00:00Z');
    chatId = await addChat(db, by, { title: '=1+1', startedAt });
    const foldState = { userLabel: 'off', offStreak: 2, onStreak: 0 };
    const scored = { scoredAt: startedAt, echoState: 'watch', ewma: 61.5, alignmentScore: 0.25, foldState };
    const failed = { status: 'error', errorCode: 'interrupted', assistantReply: null, latencyMs: null };
    for (const [round, text, more] of [
      [1, '-2+3 "quoted",\nand more', scored],
      [2, 'Häuser', failed],
    ] as const) {
      await addRound(db, { orgId: by.orgId, chatId, round }, { startedAt, userContent: text, ...more });
    }
  });

  const linesOf = (text: string): Record<string, unknown>[] =>
    (text.match(/.+/g) ?? []).map((line) => JSON.parse(line));
  const readLines = async (query: string, reader = ada) =>
    linesOf(await (await reader.raw(`/logs/export?format=jsonl&${query}`)).text());

  it('200: exports CSV in which no cell is a formula', async () => {
    const { body, headers } = await ada.get('/logs/export', 200);
    expect(headers.get('content-type')).equal('text/csv; charset=utf-8; header=present');
    expect(headers.get('content-disposition')).include('attachment; filename="conversations.csv"');
    const of = `${chatId},'=1+1,"'-2+3 ""quoted"", and more",${by.agentId},Loans,2026-03-01T10:00:00.000Z`;
    expect(String(body).split('\r\n')).deep.equal([
      columns,
      `${of},1,2026-03-01T10:00:00.000Z,exchange,,any,"'-2+3 ""quoted"",\nand more",Month by month.,false,watch,61.5,0.25,2,10,5,0.0001,100`,
      `${of},2,2026-03-01T10:00:00.000Z,error,interrupted,any,Häuser,,false,,,,,10,5,0.0001,`,
      '',
    ]);
    expect((await ada.get('/logs/export?date_from=2026-03-02', 200)).body).equal(`${columns}\r\n`);
  });

  it('200: exports a JSON line for each round of readable conversations, with the filters of the list', async () => {
    const lines = await readLines('');
    for (const line of lines) expect(Object.keys(line).join()).equal(columns);
    expect(lines[0]).include({ title: '=1+1', round: 1, state: 'watch', ewma: 61.5, user_on_or_off_topic_streak: 2 });
    expect(lines[1]).include({ type: 'error', assistant_reply: null, state: null, latency_ms: null });
    expect(await readLines('state=stable&q=hauser&date_to=2026-03-01')).length(2);
    expect(await readLines('state=watch')).length(0);
    expect(await readLines('', await api.signUp('Eve'))).length(0);
    expect((await ada.get('/logs/export?format=xlsx', 400)).body).include({ code: 'unsupported_export_format' });
  });

  describe('with several pages of chats and rounds', () => {
    let grace: Member;
    const rounds = 45 + 51;

    before(async () => {
      grace = await api.signUp('Grace');
      const { db } = api.container;
      const long = { orgId: grace.orgId, createdBy: grace.userId, agentId: uuidv7() };
      await addAgent(db, long);
      for (let chat = 0; chat < 52; chat += 1) {
        const id = await addChat(db, long);
        for (let round = 1; round <= (chat === 0 ? 45 : 1); round += 1) {
          await addRound(db, { orgId: long.orgId, chatId: id, round }, { assistantReply: 'x'.repeat(200_000) });
        }
      }
    });

    /**
     * Begins to read in a session of its own, and no more until nothing is read from the database any more. On a
     * connection of its own as well: the buffers of one that has carried much have grown, and hold all there is.
     */
    async function begin() {
      const { db } = api.container;
      const credentials = { username: grace.email, password: grace.password };
      const { body } = await api.anonymous.post('/auth/login', credentials, 200);
      const { access_token: token, refresh_token: refreshToken } = tokenResponse.parse(body);
      let statements = 0;
      const listen = () => {
        statements += 1;
      };
      db.on('query', listen);
      const headers = { authorization: `Bearer ${token}` };
      const sent = request(`${api.baseUrl}/logs/export?format=jsonl`, { agent: false, headers }).end();
      const [answer] = await once(sent, 'response');
      await once(answer, 'readable');
      let before = -1;
      await until('the export reads no more rows', async () => {
        const isStill = before === statements;
        before = statements;
        return isStill;
      });
      db.removeListener('query', listen);
      const readOn = async () => linesOf(await text(answer));
      return { readOn, leave: () => answer.destroy(), refreshToken, reader: api.anonymous.withToken(token) };
    }

    it('200: reads the database no faster than the client reads the response', async () => {
      const { readOn } = await begin();
      const statements: string[] = [];
      api.container.db.once('query', ({ sql }: { sql: string }) => statements.push(sql));
      const lines = await readOn();
      // What the sockets hold is some of the 52 chats, never all.
      expect(statements).length(1);
      expect(lines).length(rounds);
      expect(new Set(lines.map(({ chat_id, round }) => `${chat_id} ${round}`)).size).equal(rounds);
    });

    it('200: omits chats to which the user loses access during the export', async () => {
      const { db } = api.container;
      const { readOn } = await begin();
      const chats = db('chats').where({ orgId: grace.orgId });
      await chats.clone().update({ acl: [`user:${uuidv7()}`] });
      const lines = await readOn();
      await chats.update({ acl: [`user:${grace.userId}`] });
      expect(lines).length.within(1, rounds - 20);
    });

    it('429: rejects a second concurrent export of a user', async () => {
      const { leave } = await begin();
      const { headers } = await grace.get('/logs/export', 429);
      expect(headers.get('retry-after')).equal('30');
      await ada.get('/logs/export', 200);
      leave();
      await until('the other one is over', async () => {
        const response = await grace.raw(`/logs/export?agent_id=${uuidv7()}`);
        await response.text();
        return response.status === 200;
      });
    });

    it('200: breaks off when the session of the user ends', async () => {
      const { readOn, reader, refreshToken } = await begin();
      await reader.post('/auth/logout', { refresh_token: refreshToken }, 204);
      await until('the session is over', async () => (await reader.raw('/logs/agents')).status === 401);
      const end = await readOn().then(
        () => 'whole',
        () => 'broken off',
      );
      expect(end).equal('broken off');
    });
  });
});
