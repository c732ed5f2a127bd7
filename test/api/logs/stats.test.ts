import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { addAgent, addChat, addRound } from '#test/support/logged-chats.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const scoredAt = new Date('2026-03-02T10:00:00Z');

describe('logs of all conversations', () => {
  let api: Stack;
  let ada: Member;
  let bob: Member;
  let eve: Member;
  let by: { orgId: string; createdBy: string; agentId: string };
  let mortgages: string;
  let own: string;
  let team: string;

  before(async () => {
    api = await stack();
    const { db } = api.container;
    ada = await api.signUp('Ada');
    bob = await aColleague(api, ada, 'Bob');
    eve = await api.signUp('Eve');
    const teamIds = [await aTeam(ada, [bob])];
    by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
    mortgages = uuidv7();
    await addAgent(db, by);
    await addAgent(db, { ...by, agentId: mortgages }, 'Mortgages');
    await addAgent(db, { ...by, agentId: uuidv7() }, 'Never asked');
    own = await addChat(db, by, { title: 'Own', startedAt: new Date('2026-03-01T10:00:00Z') });
    team = await addChat(
      db,
      { ...by, createdBy: bob.userId, agentId: mortgages },
      {
        title: 'Team',
        visibility: 'team_level',
        teamIds,
        startedAt: new Date('2026-03-02T10:00:00Z'),
      },
    );
    const round = (chatId: string, number: number, columns: Record<string, unknown>) =>
      addRound(db, { orgId: by.orgId, chatId, round: number }, columns);
    await round(own, 1, { echoState: 'stable', ewma: 90, scoredAt, inputTokens: 100, costUsd: 0.5, latencyMs: 100 });
    await round(own, 2, {
      echoState: 'drift_agent',
      ewma: 40,
      scoredAt,
      inputTokens: 200,
      costUsd: 0.25,
      latencyMs: 300,
    });
    await round(team, 1, { echoState: 'refusal', ewma: 50, scoredAt, inputTokens: 1_000, costUsd: 0, latencyMs: 500 });
    await round(team, 2, {
      status: 'error',
      assistantReply: null,
      inputTokens: 0,
      completionTokens: 0,
      costUsd: 0,
      latencyMs: null,
    });
  });

  const none = {
    total_chats: 0,
    total_rounds: 0,
    avg_ewma: null,
    total_input_tokens: 0,
    total_completion_tokens: 0,
    total_tokens: 0,
    total_cost_usd: 0,
    avg_latency_ms: null,
    drift_rounds: 0,
    stable_rounds: 0,
    refusal_rounds: 0,
    drift_rate: null,
  };

  describe('GET /logs/stats', () => {
    const read = async (query = '', reader = ada) => (await reader.get(`/logs/stats${query}`, 200)).body;
    const ofOwn = {
      total_chats: 1,
      total_rounds: 2,
      avg_ewma: 65,
      total_input_tokens: 300,
      total_completion_tokens: 10,
      total_tokens: 310,
      total_cost_usd: 0.75,
      avg_latency_ms: 200,
      drift_rounds: 1,
      stable_rounds: 1,
      refusal_rounds: 0,
      drift_rate: 0.5,
    };
    const ofAll = {
      total_chats: 2,
      total_rounds: 4,
      avg_ewma: 60,
      total_input_tokens: 1_300,
      total_completion_tokens: 15,
      total_tokens: 1_315,
      total_cost_usd: 0.75,
      avg_latency_ms: 300,
      drift_rounds: 1,
      stable_rounds: 1,
      refusal_rounds: 1,
      drift_rate: 1 / 3,
    };

    it('200: aggregates over the conversations that each user may read', async () => {
      expect(await read()).deep.equal(ofAll);
      expect(await read('', bob)).deep.include({ total_chats: 1, total_rounds: 2, refusal_rounds: 1, avg_ewma: 50 });
      expect(await read('', eve)).deep.equal(none);
    });

    it('200: filters by agent and period', async () => {
      expect(await read(`?agent_id=${by.agentId}`)).deep.equal(ofOwn);
      expect(await read('?date_to=2026-03-01')).deep.equal(ofOwn);
      expect(await read('?date_from=2026-02-01&date_to=2026-03-01T10:00:00Z')).deep.equal(ofOwn);
      expect(await read('?date_from=2026-03-01&date_to=2026-03-02')).deep.equal(ofAll);
      expect(await read('?date_from=2026-03-01T10:00:00.001Z&date_to=2026-03-02T09:00:00Z')).deep.equal(none);
      expect(await read(`?agent_id=${mortgages}&date_to=2026-03-01`)).deep.equal(none);
    });

    it('401: rejects a request without a token', async () => {
      await api.anonymous.get('/logs/stats', 401);
    });

    it('422: rejects an invalid filter', async () => {
      for (const query of ['agent_id=x', 'date_from=x', 'date_to=2026-1-1', 'state=stable'])
        await ada.get(`/logs/stats?${query}`, 422);
    });
  });

  describe('GET /logs/recent', () => {
    const titles = async (query = '', reader = ada) =>
      ((await reader.get(`/logs/recent${query}`, 200)).body as { title: string }[]).map(({ title }) => title);

    it('200: lists the last changed conversations first', async () => {
      await ada.patch(`/chat/${own}`, { title: 'Own' }, 200);
      const { body } = await ada.get('/logs/recent?limit=1', 200);
      const { updatedAt } = await api.container.db('chats').where({ id: own }).first();
      expect(body).deep.equal([{ id: own, title: 'Own', updated_at: updatedAt.toISOString() }]);
      expect(await titles()).deep.equal(['Own', 'Team']);
      expect(await titles('?mine=true')).deep.equal(['Own']);
      expect(await titles('?mine=false', bob)).deep.equal(['Team']);
      expect(await titles('', eve)).deep.equal([]);
    });

    it('401: rejects a request without a token', async () => {
      await api.anonymous.get('/logs/recent', 401);
    });

    it('422: rejects a limit outside of 1 to 31', async () => {
      for (const limit of ['0', '32', 'x']) await ada.get(`/logs/recent?limit=${limit}`, 422);
    });
  });

  describe('GET /logs/agents', () => {
    it('200: lists agents of readable conversations, including deleted agents', async () => {
      await api.container.db('agents').where({ id: mortgages }).update({ deletedAt: new Date() });
      const both = [
        { id: by.agentId, name: 'Loans' },
        { id: mortgages, name: 'Mortgages' },
      ];
      expect((await ada.get('/logs/agents', 200)).body).deep.equal(both);
      expect((await bob.get('/logs/agents', 200)).body).deep.equal(both.slice(1));
      expect((await eve.get('/logs/agents', 200)).body).deep.equal([]);
    });

    it('401: rejects a request without a token', async () => {
      await api.anonymous.get('/logs/agents', 401);
    });
  });

  it('200: shows former members of a team their own conversations there', async () => {
    const { db } = api.container;
    await db('teamMemberships').where({ userId: bob.userId }).delete();
    expect((await bob.get(`/logs/conversations/${team}`, 200)).body).include({ chat_title: 'Team' });
    expect((await bob.get('/logs/stats?date_from=2026-03-02', 200)).body).include({ total_chats: 1, total_rounds: 2 });
    expect((await bob.get('/logs/agents', 200)).body).length(1);
    expect((await bob.get('/logs/recent', 200)).body).length(1);
  });
});
