import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import calibrations from '#src/domain/alignment/calibrations.json' with { type: 'json' };
import { createRefusalDetector, nullUnlessLikelyRefusal, refusalKindOfRound } from '#src/domain/alignment/refusal.ts';
import weights from '#src/domain/alignment/refusal-weights.json' with { type: 'json' };
import { modelsWithAlignmentCalibration } from '#src/domain/alignment/score.ts';

describe('refusal detection', () => {
  const readRefusal = createRefusalDetector(createTextAnalyzer(), 'all-minilm-l6-v2-int8-r2');
  const refusal = { kind: 'policy', score: 1 } as const;

  it('decides by wording if the wording is clear, otherwise by the fitted model', () => {
    for (const reply of [
      "I'm sorry, but I can't help with that.",
      'I cannot provide this information.',
      'Unfortunately, I am not able to assist with illegal activities.',
      'Thanks for asking! That is outside my scope. I can help with loans.',
    ]) {
      expect(readRefusal(reply, null), reply).to.deep.equal({ ...refusal, decidedBy: 'wording' });
    }
    const opinion = 'As an AI language model, I do not have personal opinions or beliefs, and I do not have feelings.';
    expect(readRefusal(opinion, null)).to.include({ kind: 'capability', decidedBy: 'model' });
    expect(readRefusal(opinion, null).score).to.be.within(0.35, 0.65);
  });

  it('ignores refusing words in a helpful answer or late in a reply, and replies that a search found nothing', () => {
    const answer =
      'As a language model I have read a lot. Here are some ways to kill a Python process: 1. Use the kill command.';
    expect(readRefusal(answer, null)).to.include({ kind: 'capability', decidedBy: 'model' });
    expect(readRefusal('I cannot find this in the documents.', null).decidedBy).to.equal('model');
    for (const reply of [
      answer,
      'I cannot find this in the documents.',
      'Here are five tips for a good loan: compare offers, and read the contract.',
      'The loan runs for two years.',
      `${'The loan runs for two years, '.repeat(25)} and I cannot help with that.`,
      'I am sorry to hear that. Here is what to do. Call us. Then I cannot stop you.',
      '',
    ]) {
      expect(nullUnlessLikelyRefusal(readRefusal(reply, null)), reply).to.equal(null);
    }
  });

  it('uses embeddings only from the model for which it was fitted', () => {
    const reply = 'Let us rather talk about something else.';
    const embedding = new Float32Array(384).fill(0.05);
    const byWords = readRefusal(reply, null);
    expect(byWords).to.include({ kind: 'policy', decidedBy: 'model' });
    expect(readRefusal(reply, embedding).score).to.not.equal(byWords.score);
    const other = createRefusalDetector(createTextAnalyzer(), 'another-model');
    expect(other(reply, embedding)).to.deep.equal(byWords);
  });

  it('reports a refusal from a probability of one half, with kind `scope` if the user was off topic', () => {
    expect(nullUnlessLikelyRefusal({ ...refusal, score: 0.5 })).to.deep.equal({ ...refusal, score: 0.5 });
    expect(nullUnlessLikelyRefusal({ ...refusal, score: 0.49 })).to.equal(null);
    expect([refusalKindOfRound(refusal, 'off'), refusalKindOfRound(refusal, 'on')]).to.deep.equal(['scope', 'policy']);
  });
});

describe('the fitted refusal weights', () => {
  it('contain a weight for each feature, and name their training data, model and word frequency table', () => {
    expect(weights.rarity).to.have.length(weights.grams.length);
    // Two counts of phrases, the embedding, and the intercept.
    expect(weights.weights).to.have.length(weights.grams.length + 2 + 384 + 1);
    expect(weights.weightsOfWords).to.have.length(weights.grams.length + 2 + 1);
    expect(modelsWithAlignmentCalibration).to.include(weights.modelId);
    for (const { sources } of [weights, ...calibrations]) {
      expect(sources.length).to.be.greaterThan(1);
      for (const { sha256 } of sources) expect(sha256).to.match(/^[\da-f]{64}$/);
    }
    const table = readFileSync(new URL('../../../src/domain/alignment/idf-table.json', import.meta.url));
    const recorded = calibrations.flatMap(({ sources }) => sources).find(({ path }) => path.endsWith('idf-table.json'));
    expect(createHash('sha256').update(table).digest('hex')).to.equal(recorded?.sha256);
  });

  it('reach the required quality on held-out data', () => {
    for (const { quality } of calibrations) {
      expect(quality.meanAuc).to.be.at.least(0.945);
      expect(quality.worstAuc).to.be.at.least(0.9);
      expect(quality.calibrationError).to.be.at.most(0.05);
    }
    const { f1, worstF1, falseRefusals } = weights.quality.withEmbedding;
    expect(f1).to.be.at.least(0.94);
    expect(worstF1).to.be.at.least(0.72);
    expect(falseRefusals).to.be.at.most(0.05);
  });
});
