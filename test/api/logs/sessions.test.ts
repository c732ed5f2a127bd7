import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { Member } from '#test/support/client.ts';
import { addAgent, addChat, addRound } from '#test/support/logged-chats.ts';
import { type Stack, stack } from '#test/support/stack.ts';

type Session = { round_summaries: { round: number }[]; next_cursor: string | null };

const scoredAt = new Date('2026-03-02T10:00:00Z');
const event = (type: string, round: number) => ({ type, round, at: '2026-03-02T10:00:00.000Z', data: {} });

describe('a logged conversation', () => {
  let api: Stack;
  let ada: Member;
  let by: { orgId: string; createdBy: string; agentId: string };
  let chatId: string;

  before(async () => {
    api = await stack();
    ada = await api.signUp('Ada');
    const { db } = api.container;
    by = { orgId: ada.orgId, createdBy: ada.userId, agentId: uuidv7() };
    await addAgent(db, by);
    chatId = await addChat(db, by, { title: 'A <b>loan</b> & "more"', startedAt: new Date('2026-03-01T10:00:00Z') });
    const used = { inputTokens: 100, completionTokens: 20, costUsd: 0.001 };
    const [onTopic, offTopic] = [
      { userLabel: 'on', offStreak: 0, onStreak: 1 },
      { userLabel: 'off', offStreak: 3, onStreak: 0 },
    ];
    const scores = [
      { echoState: 'stable', ewma: 90, alignmentScore: 0.9, scoredAt, foldState: onTopic },
      { echoState: 'drift_user', ewma: 40.5, alignmentScore: 0.1, scoredAt, latencyMs: 200, foldState: offTopic },
      { echoState: 'refusal', ewma: 42, alignmentScore: 0.2, scoredAt, latencyMs: 300, foldState: offTopic },
    ];
    const events = {
      answerEvents: JSON.stringify([event('retrieval_degraded', 2)]),
      events: JSON.stringify([event('drift_started', 2)]),
    };
    const unused = { inputTokens: 0, completionTokens: 0, costUsd: 0, assistantReply: null, latencyMs: null };
    const rounds = [
      { ...used, ...scores[0], userContent: 'How is a\nloan repaid?' },
      { ...used, ...scores[1], ...events },
      { ...used, ...scores[2] },
      { ...unused, status: 'error', errorCode: 'model_unavailable' },
      { ...used, model: 'newer', latencyMs: 400 },
    ];
    for (const [index, columns] of rounds.entries()) {
      await addRound(db, { orgId: ada.orgId, chatId, round: index + 1 }, columns);
    }
  });

  describe('GET /logs/conversations/{chat_id}', () => {
    const read = async (query = '', id = chatId) =>
      (await ada.get(`/logs/conversations/${id}${query}`, 200)).body as Session;
    /** The numbers of the rounds of each page. */
    async function pages(limit: number, id = chatId): Promise<number[][]> {
      const numbers: number[][] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Session = await read(`?limit=${limit}${cursor === '' ? '' : `&cursor=${cursor}`}`, id);
        numbers.push(page.round_summaries.map(({ round }) => round));
        cursor = page.next_cursor;
      }
      return numbers;
    }

    it('200: returns the result of each round and a summary', async () => {
      const body = await read();
      expect(body).deep.include({
        session: {
          ...{ run_id: `alignment-${chatId}`, agent: 'Loans', model: 'newer', started_at: '2026-03-01T10:00:00.000Z' },
          summary: { total_rounds: 5, avg_ewma: 57.5, stable_rounds: 1, drift_rounds: 1, refusal_rounds: 1 },
        },
        ...{ next_cursor: null, avg_latency_ms: 250 },
        ...{ chat_title: 'A <b>loan</b> & "more"', chat_description: 'How is a loan repaid?' },
      });
      const texts = { user_content: 'How is a loan repaid?', assistant_reply: 'Month by month.' };
      const exchange = { ...texts, type: 'exchange', scoring_pending: false };
      const unscored = { state: null, ewma: null };
      expect(body.round_summaries).deep.equal([
        {
          ...{ ...exchange, user_content: 'How is a\nloan repaid?' },
          ...{ round: 1, state: 'stable', ewma: 90, latency_ms: 100 },
        },
        { ...exchange, round: 2, state: 'drift_user', ewma: 40.5, latency_ms: 200 },
        { ...exchange, round: 3, type: 'refusal', state: 'refusal', ewma: 42, latency_ms: 300 },
        { ...exchange, round: 4, type: 'error', ...unscored, assistant_reply: null, latency_ms: null },
        { ...exchange, round: 5, ...unscored, scoring_pending: true, latency_ms: 400 },
      ]);
    });

    it('200: returns pages, of fewer rounds if their texts are long', async () => {
      expect(await pages(2)).deep.equal([[1, 2], [3, 4], [5]]);
      const long = await addChat(api.container.db, by);
      for (const [index, size] of [2.1, 2.1, 5, 2.1].entries()) {
        const assistantReply = 'x'.repeat(size * 1_000_000);
        await addRound(api.container.db, { orgId: ada.orgId, chatId: long, round: index + 1 }, { assistantReply });
      }
      expect(await pages(500, long)).deep.equal([[1, 2], [3], [4]]);
    });

    it('400: rejects a cursor of another conversation', async () => {
      const { next_cursor: cursor } = await read('?limit=2');
      const other = await addChat(api.container.db, by);
      await ada.get(`/logs/conversations/${other}?cursor=${cursor}`, 400);
      await ada.get(`/logs/conversations/${chatId}?cursor=x`, 400);
    });
  });

  const readRound = async (round: number | string, status = 200) =>
    Object((await ada.get(`/logs/conversations/${chatId}/rounds/${round}`, status)).body);

  it('has rounds with their scores and events, or none before they are scored', async () => {
    const body = await readRound(2);
    expect(body).deep.include({ chat_id: chatId, round_index: 2, scoring_pending: false });
    expect(body.round).deep.equal({
      ...{ round: 2, state: 'drift_user', ewma: 40.5, alignment_score: 0.1, user_on_or_off_topic_streak: 3 },
      ...{ input_tokens: 100, completion_tokens: 20, latency_ms: 200 },
      events: [event('retrieval_degraded', 2), event('drift_started', 2)],
    });
    expect(body.session.summary.total_rounds).equal(5);
    expect((await readRound(1)).round.user_on_or_off_topic_streak).equal(1);

    const unscored = await readRound(5);
    expect(unscored.scoring_pending).equal(true);
    expect(unscored.round).deep.include({ state: null, ewma: null, alignment_score: null, events: [] });
    expect(unscored.round.user_on_or_off_topic_streak).equal(null);
  });

  it('has no other rounds: 404', async () => {
    for (const round of [6, 0, -1, '1.5', 'first', '9999999999']) {
      expect(await readRound(round, 404)).include({ code: 'round_not_found' });
    }
  });

  it('has a trend, drawn with a text description, of which ranges can be read', async () => {
    const path = `/logs/conversations/${chatId}/trend.svg`;
    const { body, headers } = await ada.get(path, 200);
    expect(headers.get('content-type')).equal('image/svg+xml; charset=utf-8');
    const svg = String(body);
    expect(svg).include('<title id="title">Trend of A &lt;b&gt;loan&lt;/b&gt; &amp; &quot;more&quot;</title>');
    expect(svg).include(
      'Rounds 1 to 3: the trend is 42 of 100 and refusal in the last one, lowest with 40.5 in round 2.',
    );
    expect(svg.match(/<rect class="\w+" x="[\d.]+" y="36"/g)).length(3);
    expect(svg.match(/class="refused"/g)).length(1);
    expect(svg).include('prefers-color-scheme: dark').not.include('<b>');
    expect((await ada.get(path, 206, { range: 'bytes=0-3' })).body).equal('<svg');
    const outside = await ada.get(path, 416, { range: 'bytes=9999999-' });
    expect(outside.body).include({ code: 'range_not_satisfiable' });
  });
});
