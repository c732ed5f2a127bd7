import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { appError } from '#src/errors.ts';
import type { ChatToScore } from '#src/modules/alignment/alignment.model.ts';
import { createRoundMeasurer, createScoreAdjudicator } from '#src/modules/alignment/round-measurer.ts';
import type { Embedder, ModelReply, ModelRequest } from '#src/ports/models.ts';

const chat: ChatToScore = {
  orgId: 'org',
  chatId: 'chat',
  agentId: 'agent',
  agentPrompt: 'You are a bank clerk who answers questions about loans.',
  chatModel: 'model',
  title: 'Loans',
  titleSource: 'user',
  anchorWords: { anchor: 5 },
  userOffTopicStreakThreshold: 3,
  userOnTopicStreakThreshold: 2,
  rescoringWantedAt: null,
  rescoredTo: 0,
};
const options = { byWords: 'unless_transient', signal: new AbortController().signal } as const;
const logger = { warn: () => undefined };

/** Texts get a cosine to the anchor by their first word ("near" 0.9, "doubt" 0.25, others 0), and 0 to each other. */
const embedder: Embedder = {
  model: 'all-minilm-l6-v2-int8-r2',
  embed: async (texts) =>
    texts.map((text) => {
      if (text === 'anchor') return vector(1, 0, 0);
      if (text.startsWith('near')) return vector(0.9, 0.436, 0);
      return text.startsWith('doubt') ? vector(0.25, 0, 0.968) : vector(0, 0, 1);
    }),
};

function vector(...first: number[]): Float32Array {
  const all = new Float32Array(384);
  all.set(first);
  return all;
}

function measurer(answer: () => string, requests: ModelRequest[] = []) {
  const complete = async (request: ModelRequest): Promise<ModelReply> => {
    requests.push(request);
    return { text: answer(), model: 'model', usage: { inputTokens: 1, cachedInputTokens: 0, completionTokens: 1 } };
  };
  const adjudicate = createScoreAdjudicator({ chatModel: { complete }, logger });
  return createRoundMeasurer({ embedder, analyze: createTextAnalyzer(), adjudicate, logger });
}

const round = (userContent: string, assistantReply: string) => ({ round: 1, userContent, assistantReply });
const verdict = (user: boolean, reply: boolean, declined = false) =>
  JSON.stringify({ user_on_topic: user, reply_on_topic: reply, declined });

describe('adjudication of doubtful rounds by a chat model', () => {
  const doubtful = round('doubt about which papers people carry somewhere', 'near is the answer to the question asked');

  it('replaces only the doubtful scores', async () => {
    const requests: ModelRequest[] = [];
    const measured = await measurer(() => verdict(true, false), requests).measure(chat, doubtful, undefined, options);
    expect(measured).to.include({ scoreSource: 'llm', userScore: 0.8, refusalReading: null });
    expect(measured.agentScore).to.be.greaterThan(0.9);
    expect(requests).to.have.length(1);
    expect(requests[0]).to.include({ model: 'model', temperature: 0 });
    expect(requests[0]?.messages[1]?.content).to.include(chat.agentPrompt).and.to.include(doubtful.userContent);
    const [system, user] = requests[0]?.messages ?? [];
    const nonce = /<<end ([0-9a-f]{16})>>/.exec(String(system?.content))?.[1];
    expect(user?.content).to.include(`<<message ${nonce}>>\n${doubtful.userContent}\n<<end ${nonce}>>`);
    const off = await measurer(() => verdict(false, true)).measure(chat, doubtful, undefined, options);
    expect(off.userScore).to.equal(0.2);
  });

  it('is skipped for clear scores and courtesy messages', async () => {
    const requests: ModelRequest[] = [];
    const { measure } = measurer(() => verdict(false, false), requests);
    const clear = 'near is the answer to the question asked';
    expect(await measure(chat, round('near some anchors there', clear), undefined, options)).include({
      scoreSource: 'embedding',
    });
    expect((await measure(chat, round('thanks', clear), undefined, options)).neutral).to.equal(true);
    expect(requests).to.deep.equal([]);
  });

  for (const [name, answer] of [
    ['no JSON', () => 'On topic, I would say.'],
    ['other JSON', () => '{"on_topic":"yes"}'],
    [
      'an error',
      () => {
        throw appError('model_unavailable', {});
      },
    ],
  ] as const) {
    it(`keeps the scores if the model returns ${name}`, async () => {
      const measured = await measurer(answer).measure(chat, doubtful, undefined, options);
      expect(measured.scoreSource).to.equal('embedding');
      expect(measured.userScore).to.be.within(0.35, 0.65);
    });
  }

  it('decides whether a doubtful reply declines', async () => {
    const reply = 'As an AI language model, I do not have personal opinions or beliefs, and I do not have feelings.';
    const noVector: Embedder = { ...embedder, embed: async () => Promise.reject(appError('model_unavailable', {})) };
    const complete = async (): Promise<ModelReply> => ({
      text: verdict(true, true, true),
      model: 'model',
      usage: { inputTokens: 1, cachedInputTokens: 0, completionTokens: 1 },
    });
    const byWords = createRoundMeasurer({
      embedder: noVector,
      analyze: createTextAnalyzer(),
      adjudicate: createScoreAdjudicator({ chatModel: { complete }, logger }),
      logger,
    });
    const always = { ...options, byWords: 'always' } as const;
    const declined = await byWords.measure(chat, round('near', reply), undefined, always);
    expect(declined).to.deep.include({ scoreSource: 'llm', refusalReading: { kind: 'capability', score: 0.8 } });
    expect(declined.scorerVersion).to.match(/\/words$/);
  });
});

describe('a round with vectors of another model', () => {
  it('is scored by words alone, and its vectors are not cached', async () => {
    let isWrong = true;
    const embed: Embedder['embed'] = async (texts) =>
      isWrong ? texts.map(() => Float32Array.from([1, 0, 0])) : embedder.embed(texts);
    const mending = createRoundMeasurer({
      embedder: { ...embedder, embed },
      analyze: createTextAnalyzer(),
      adjudicate: null,
      logger,
    });
    const said = round('doubt about which papers people carry somewhere', 'near is the answer to the question asked');
    const byWords = await mending.measure(chat, said, undefined, { ...options, byWords: 'always' });
    expect(byWords.scoreSource).to.equal('words');
    isWrong = false;
    const mended = await mending.measure(chat, said, undefined, options);
    expect(mended.scoreSource).to.equal('embedding');
    expect(mended.agentScore).to.be.greaterThan(0.9);
  });
});

describe('a round whose embedder fails', () => {
  const broken = (code: 'model_unavailable' | 'model_not_configured') =>
    createRoundMeasurer({
      embedder: { ...embedder, embed: async () => Promise.reject(appError(code, {})) },
      analyze: createTextAnalyzer(),
      adjudicate: null,
      logger,
    });
  const said = round('an anchor for this', 'an anchor');
  const measure = (
    code: 'model_unavailable' | 'model_not_configured',
    byWords: 'always' | 'unless_transient' | 'if_rejected',
  ) =>
    broken(code)
      .measure(chat, said, undefined, { ...options, byWords })
      .then(({ scoreSource }) => scoreSource)
      .catch(() => 'not scored');

  it('throws transient errors, and is scored by words after permanent ones or if allowed', async () => {
    expect(await measure('model_unavailable', 'unless_transient')).to.equal('not scored');
    expect(await measure('model_not_configured', 'unless_transient')).to.equal('words');
    expect(await measure('model_unavailable', 'always')).to.equal('words');
    expect(await measure('model_not_configured', 'if_rejected')).to.equal('not scored');
  });
});
