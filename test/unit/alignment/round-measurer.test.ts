import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { appError } from '#src/errors.ts';
import type { ChatToScore } from '#src/modules/alignment/alignment.model.ts';
import { createRoundMeasurer, createScoreAdjudicator } from '#src/modules/alignment/round-measurer.ts';
import type { Embedder, ModelRequest } from '#src/ports/models.ts';

const chat: ChatToScore = {
  ...{ orgId: 'org', chatId: 'chat', agentId: 'agent', chatModel: 'model', title: 'Loans', titleSource: 'user' },
  agentPrompt: 'You are a bank clerk who answers questions about loans.',
  anchorWords: { anchor: 5 },
  ...{ userOffTopicStreakThreshold: 3, userOnTopicStreakThreshold: 2, rescoringWantedAt: null, rescoredTo: 0 },
};
const options = { byWords: 'unless_transient', signal: new AbortController().signal } as const;
const logger = { warn: () => undefined };

function vector(...first: number[]): Float32Array {
  const all = new Float32Array(384);
  all.set(first);
  return all;
}

/** Texts get a cosine to the anchor by their first word ("near" 0.9, "doubt" 0.25, others 0), and 0 to each other. */
const embed: Embedder['embed'] = async (texts) =>
  texts.map((text) => {
    if (text === 'anchor') return vector(1, 0, 0);
    if (text.startsWith('near')) return vector(0.9, 0.436, 0);
    return text.startsWith('doubt') ? vector(0.25, 0, 0.968) : vector(0, 0, 1);
  });
const failing = (code: 'model_unavailable' | 'model_not_configured') => async () => Promise.reject(appError(code, {}));

/** Measures rounds by embeddings, and doubtful ones by a chat model with this answer, if any. */
function measurer(answer: (() => string) | null, embedTexts = embed) {
  const requests: ModelRequest[] = [];
  const usage = { inputTokens: 1, cachedInputTokens: 0, completionTokens: 1 };
  const complete = async (request: ModelRequest) => {
    requests.push(request);
    return { text: answer?.() ?? '', model: 'model', usage };
  };
  const { measure } = createRoundMeasurer({
    embedder: { model: 'all-minilm-l6-v2-int8-r2', embed: embedTexts },
    analyze: createTextAnalyzer(),
    adjudicate: answer && createScoreAdjudicator({ chatModel: { complete }, logger }),
    logger,
  });
  return {
    requests,
    measure: (
      userContent: string,
      assistantReply: string,
      byWords: Parameters<typeof measure>[3]['byWords'] = options.byWords,
    ) => measure(chat, { round: 1, userContent, assistantReply }, undefined, { ...options, byWords }),
  };
}

const doubt = 'doubt about which papers people carry somewhere';
const near = 'near is the answer to the question asked';
const verdict = (user: boolean, reply: boolean, declined = false) =>
  JSON.stringify({ user_on_topic: user, reply_on_topic: reply, declined });

describe('asking a chat model about rounds with doubtful scores', () => {
  it('replaces only the scores that are doubtful', async () => {
    const { measure, requests } = measurer(() => verdict(true, false));
    const measured = await measure(doubt, near);
    expect(measured).to.include({ scoreSource: 'llm', userScore: 0.8, refusalReading: null });
    expect(measured.agentScore).to.be.greaterThan(0.9);
    expect(requests).to.have.length(1);
    expect(requests[0]).to.include({ model: 'model', temperature: 0 });
    const [system, user] = requests[0]?.messages ?? [];
    const nonce = /<<end ([0-9a-f]{16})>>/.exec(String(system?.content))?.[1];
    expect(user?.content)
      .to.include(chat.agentPrompt)
      .and.to.include(`<<message ${nonce}>>\n${doubt}\n<<end ${nonce}>>`);
    expect(await measurer(() => verdict(false, true)).measure(doubt, near)).include({ userScore: 0.2 });
  });

  it('is skipped for clear scores and courtesy messages', async () => {
    const { measure, requests } = measurer(() => verdict(false, false));
    expect(await measure('near some anchors there', near)).include({ scoreSource: 'embedding' });
    expect(await measure('thanks', near)).include({ neutral: true });
    expect(requests).to.deep.equal([]);
  });

  it('changes no score if the model returns an error, no JSON, or JSON of the wrong shape', async () => {
    const error = () => {
      throw appError('model_unavailable', {});
    };
    for (const answer of [error, () => 'On topic, I would say.', () => '{"on_topic":"yes"}']) {
      const measured = await measurer(answer).measure(doubt, near);
      expect(measured.scoreSource).to.equal('embedding');
      expect(measured.userScore).to.be.within(0.35, 0.65);
    }
  });

  it('decides whether an ambiguous reply is a refusal', async () => {
    const reply = 'As an AI language model, I do not have personal opinions or beliefs, and I do not have feelings.';
    const byWords = measurer(() => verdict(true, true, true), failing('model_unavailable'));
    const declined = await byWords.measure('near', reply, 'always');
    expect(declined).to.deep.include({ scoreSource: 'llm', refusalReading: { kind: 'capability', score: 0.8 } });
    expect(declined.scorerVersion).to.match(/\/words$/);
  });
});

describe('a round that cannot be scored by embeddings', () => {
  it('is scored by words if the vectors come from another model, and these vectors are not cached', async () => {
    let isWrong = true;
    const { measure } = measurer(null, async (texts, ...more) =>
      isWrong ? texts.map(() => Float32Array.from([1, 0, 0])) : embed(texts, ...more),
    );
    expect(await measure(doubt, near, 'always')).include({ scoreSource: 'words' });
    isWrong = false;
    const mended = await measure(doubt, near);
    expect(mended.scoreSource).to.equal('embedding');
    expect(mended.agentScore).to.be.greaterThan(0.9);
  });

  it('is scored by words after errors of kinds that the caller allows, and gets no score after others', async () => {
    for (const [code, byWords, expected] of [
      ['model_unavailable', 'unless_transient', 'not scored'],
      ['model_not_configured', 'unless_transient', 'words'],
      ['model_unavailable', 'always', 'words'],
      ['model_not_configured', 'if_rejected', 'not scored'],
    ] as const) {
      const measuring = measurer(null, failing(code)).measure('an anchor for this', 'an anchor', byWords);
      const scored = await measuring.then(({ scoreSource }) => scoreSource).catch(() => 'not scored');
      expect(scored, `${code} ${byWords}`).to.equal(expected);
    }
  });
});
