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

// Formats and filters are tested in test/api/logs/conversations.test.ts.
describe('GET /logs/export of several pages of chats and rounds', () => {
  let api: Stack;
  let ada: Member;
  let grace: Member;
  const rounds = 45 + 51;

  before(async () => {
    api = await stack();
    ada = await api.signUp('Ada');
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
    const readOn = async (): Promise<Record<string, unknown>[]> =>
      ((await text(answer)).match(/.+/g) ?? []).map((line) => JSON.parse(line));
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

  // Must be the last test: the chats stay unreadable.
  it('200: omits chats to which the user loses access during the export', async () => {
    const { readOn } = await begin();
    await api.container.db('chats').where({ orgId: grace.orgId }).update({ acl: [] });
    expect(await readOn()).length.within(1, rounds - 20);
  });
});
