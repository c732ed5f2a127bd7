import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { addAgent, addChat, addRound } from '#test/support/logged-chats.ts';
import { type Stack, stack } from '#test/support/stack.ts';

type Session = { round_summaries: { round: number }[]; next_cursor: string | null };

const scoredAt = new Date('2026-03-02T10:00:00Z');
const event = (type: string, round: number) => ({ type, round, at: '2026-03-02T10:00:00.000Z', data: {} });

describe('a logged conversation', () => {
  let api: Stack;
  let ada: Member;
  let chatId: string;

  before(async () => {
    api = await stack();
    ada = await api.signUp('Ada');
    const { db } = api.container;
    const by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
    await addAgent(db, by);
    chatId = await addChat(db, by, { title: 'A <b>loan</b> & "more"', startedAt: new Date('2026-03-01T10:00:00Z') });
    const round = (columns: object) => ({ inputTokens: 100, completionTokens: 20, costUsd: 0.001, ...columns });
    const fold = { userLabel: 'off', offStreak: 3, onStreak: 0 };
    const rounds = [
      round({
        userContent: 'How is a\nloan repaid?',
        echoState: 'stable',
        ewma: 90,
        alignmentScore: 0.9,
        scoredAt,
        foldState: { userLabel: 'on', offStreak: 0, onStreak: 1 },
      }),
      round({
        echoState: 'drift_user',
        ewma: 40.5,
        alignmentScore: 0.1,
        scoredAt,
        latencyMs: 200,
        foldState: fold,
        answerEvents: JSON.stringify([event('retrieval_degraded', 2)]),
        events: JSON.stringify([event('drift_started', 2)]),
      }),
      round({ echoState: 'refusal', ewma: 42, alignmentScore: 0.2, scoredAt, latencyMs: 300, foldState: fold }),
      {
        status: 'error',
        errorCode: 'model_unavailable',
        assistantReply: null,
        latencyMs: null,
        inputTokens: 0,
        completionTokens: 0,
        costUsd: 0,
      },
      round({ model: 'newer', latencyMs: 400 }),
    ];
    for (const [place, columns] of rounds.entries()) {
      await addRound(db, { orgId: ada.orgId, chatId, round: place + 1 }, columns);
    }
  });

  const expectHidden = async (path: (id: string) => string) => {
    const strangers = [await api.signUp('Eve'), await aColleague(api, ada, 'Bob')];
    for (const stranger of strangers) {
      expect((await stranger.get(path(chatId), 404)).body).include({ code: 'chat_not_found' });
    }
    for (const id of [uuidv7(), 'first'])
      expect((await ada.get(path(id), 404)).body).include({ code: 'chat_not_found' });
  };

  describe('GET /logs/conversations/{chat_id}', () => {
    const read = async (query = '') => (await ada.get(`/logs/conversations/${chatId}${query}`, 200)).body as Session;

    it('200: returns fewer rounds per page if their texts are long, and all of them across the pages', async () => {
      const by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
      await addAgent(api.container.db, by);
      const long = await addChat(api.container.db, by);
      for (let round = 1; round <= 4; round += 1) {
        const assistantReply = 'x'.repeat(round === 3 ? 5_000_000 : 2_100_000);
        await addRound(api.container.db, { orgId: ada.orgId, chatId: long, round }, { assistantReply });
      }
      const pages: number[][] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
        const page = (await ada.get(`/logs/conversations/${long}?limit=500${query}`, 200)).body as Session;
        pages.push(page.round_summaries.map(({ round }) => round));
        cursor = page.next_cursor;
      }
      expect(pages).deep.equal([[1, 2], [3], [4]]);
    });

    it('200: returns the result of each round and a summary', async () => {
      const body = await read();
      expect(body).deep.include({
        session: {
          run_id: `alignment-${chatId}`,
          agent: 'Loans',
          model: 'newer',
          started_at: '2026-03-01T10:00:00.000Z',
          summary: { total_rounds: 5, avg_ewma: 57.5, stable_rounds: 1, drift_rounds: 1, refusal_rounds: 1 },
        },
        next_cursor: null,
        avg_latency_ms: 250,
        chat_title: 'A <b>loan</b> & "more"',
        chat_description: 'How is a loan repaid?',
      });
      const reply = {
        user_content: 'How is a loan repaid?',
        assistant_reply: 'Month by month.',
        scoring_pending: false,
      };
      expect(body.round_summaries).deep.equal([
        {
          ...reply,
          user_content: 'How is a\nloan repaid?',
          round: 1,
          type: 'exchange',
          state: 'stable',
          ewma: 90,
          latency_ms: 100,
        },
        { ...reply, round: 2, type: 'exchange', state: 'drift_user', ewma: 40.5, latency_ms: 200 },
        { ...reply, round: 3, type: 'refusal', state: 'refusal', ewma: 42, latency_ms: 300 },
        { ...reply, round: 4, type: 'error', assistant_reply: null, state: null, ewma: null, latency_ms: null },
        { ...reply, round: 5, type: 'exchange', scoring_pending: true, state: null, ewma: null, latency_ms: 400 },
      ]);
    });

    it('200: returns pages of up to 500 rounds', async () => {
      const first = await read('?limit=2');
      const second = await read(`?limit=2&cursor=${first.next_cursor}`);
      const third = await read(`?limit=500&cursor=${second.next_cursor}`);
      const rounds = [first, second, third].map((page) => page.round_summaries.map(({ round }) => round));
      expect(rounds).deep.equal([[1, 2], [3, 4], [5]]);
      expect(third.next_cursor).equal(null);
    });

    it('400: rejects a cursor of another conversation', async () => {
      const { next_cursor: cursor } = await read('?limit=2');
      const by = {
        orgId: ada.orgId,
        createdBy: ada.userId,
        agentId: (await api.container.db('chats').where({ id: chatId }).first()).agentId,
      };
      const other = await addChat(api.container.db, by);
      await ada.get(`/logs/conversations/${other}?cursor=${cursor}`, 400);
      await ada.get(`/logs/conversations/${chatId}?cursor=x`, 400);
    });

    it('401: rejects a request without a token', async () => {
      await api.anonymous.get(`/logs/conversations/${chatId}`, 401);
    });

    it('404: answers for an unknown chat, an unreadable chat and an invalid id', async () => {
      await expectHidden((id) => `/logs/conversations/${id}`);
    });

    it('422: rejects an invalid limit', async () => {
      for (const limit of ['0', '501', 'many']) await ada.get(`/logs/conversations/${chatId}?limit=${limit}`, 422);
    });
  });

  describe('GET /logs/conversations/{chat_id}/rounds/{round_index}', () => {
    const pathOf = (round: number | string) => `/logs/conversations/${chatId}/rounds/${round}`;

    it('200: returns a round with its scores and events', async () => {
      const { body } = await ada.get(pathOf(2), 200);
      expect(body).deep.include({
        chat_id: chatId,
        round_index: 2,
        round: {
          round: 2,
          state: 'drift_user',
          ewma: 40.5,
          alignment_score: 0.1,
          input_tokens: 100,
          completion_tokens: 20,
          latency_ms: 200,
          user_on_or_off_topic_streak: 3,
          events: [event('retrieval_degraded', 2), event('drift_started', 2)],
        },
        scoring_pending: false,
      });
      expect(body).nested.include({ 'session.summary.total_rounds': 5 });
      expect((await ada.get(pathOf(1), 200)).body).nested.include({ 'round.user_on_or_off_topic_streak': 1 });
    });

    it('200: returns no scores before the round is scored', async () => {
      const { body } = await ada.get(pathOf(5), 200);
      expect(body).include({ scoring_pending: true });
      expect(Object(body).round).deep.include({
        state: null,
        ewma: null,
        alignment_score: null,
        user_on_or_off_topic_streak: null,
        events: [],
      });
    });

    it('401: rejects a request without a token', async () => {
      await api.anonymous.get(pathOf(1), 401);
    });

    it('404: answers for an unknown or unreadable chat, and for a round that does not exist', async () => {
      await expectHidden((id) => `/logs/conversations/${id}/rounds/1`);
      for (const round of [6, 0, -1, '1.5', 'first', '9999999999']) {
        expect((await ada.get(pathOf(round), 404)).body).include({ code: 'round_not_found' });
      }
    });
  });

  describe('GET /logs/conversations/{chat_id}/trend.svg', () => {
    const path = () => `/logs/conversations/${chatId}/trend.svg`;

    it('200: draws the trend with a text description', async () => {
      const { body, headers } = await ada.get(path(), 200);
      expect(headers.get('content-type')).equal('image/svg+xml; charset=utf-8');
      const svg = String(body);
      expect(svg).include('<title id="title">Trend of A &lt;b&gt;loan&lt;/b&gt; &amp; &quot;more&quot;</title>');
      expect(svg).include(
        'Rounds 1 to 3: the trend is 42 of 100 and refusal in the last one, lowest with 40.5 in round 2.',
      );
      expect(svg.match(/<rect class="\w+" x="[\d.]+" y="36"/g)).length(3);
      expect(svg.match(/class="refused"/g)).length(1);
      expect(svg).include('prefers-color-scheme: dark').not.include('<b>');
    });

    it('206: returns a range', async () => {
      const response = await ada.raw(path(), { headers: { range: 'bytes=0-3' } });
      expect(response.status).equal(206);
      expect(await response.text()).equal('<svg');
    });

    it('401: rejects a request without a token', async () => {
      await api.anonymous.get(path(), 401);
    });

    it('404: answers for an unknown chat, an unreadable chat and an invalid id', async () => {
      await expectHidden((id) => `/logs/conversations/${id}/trend.svg`);
    });

    it('416: rejects a range outside of the file', async () => {
      expect((await ada.get(path(), 416, { range: 'bytes=9999999-' })).body).include({ code: 'range_not_satisfiable' });
    });
  });
});
