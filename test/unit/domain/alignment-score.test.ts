import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { calibrationFor, scorerVersion } from '#src/domain/alignment-calibration.ts';
import { scoreRound, textsToEmbed } from '#src/domain/alignment-round.ts';
import {
  type Anchor,
  containsPhrase,
  cosine,
  lexicalMatch,
  scoreText,
  semanticMatch,
} from '#src/domain/alignment-score.ts';
import { clauseAfterSwitch, isCourtesy } from '#src/domain/alignment-text.ts';
import { rarity } from '#src/domain/idf.ts';

const analyze = createTextAnalyzer();
const stems = (text: string) => analyze(text).map((term) => term.stem);
const calibration = calibrationFor('all-minilm-l6-v2-int8-r2');
const anchor = (words: string, weight: number, vector: number[] | null = null): Anchor => ({
  stems: stems(words),
  weight,
  vector: vector && Float32Array.from(vector),
});

describe('word rarity', () => {
  it('is 1 for an unknown word and falls with frequency', () => {
    expect(rarity('zyzzyva')).to.equal(1);
    expect(rarity('mortgag')).to.be.within(0.5, 1);
    expect(rarity('the')).to.be.lessThan(rarity('credit'));
  });
});

describe('semantic match', () => {
  it('is near the best anchor, whatever the others', () => {
    const anchors = [anchor('a', 5, [1, 0]), anchor('b', 5, [0, 1]), anchor('c', 5, [0, 1])];
    expect(semanticMatch(Float32Array.from([1, 0]), anchors)).to.be.closeTo(1, 0.001);
  });

  it('is the weighted soft maximum of the cosines', () => {
    const anchors = [anchor('a', 3, [1, 0]), anchor('b', 1, [0.6, 0.8])];
    const [e1, e2] = [3 * Math.exp(10), Math.exp(6)];
    expect(semanticMatch(Float32Array.from([2, 0]), anchors)).to.be.closeTo((e1 + e2 * 0.6) / (e1 + e2), 1e-6);
  });

  it('has no value without embedded anchors, and a cosine of 0 with a zero vector', () => {
    expect(semanticMatch(Float32Array.from([1]), [anchor('a', 1)])).to.equal(null);
    expect(cosine(Float32Array.from([0, 0]), Float32Array.from([1, 0]))).to.equal(0);
  });
});

describe('lexical match', () => {
  it('matches stems and contiguous phrases', () => {
    expect(containsPhrase(stems('our interest rates fell'), stems('interest rate'))).to.equal(true);
    expect(containsPhrase(stems('interest in rates'), stems('interest rate'))).to.equal(false);
    expect(containsPhrase(stems('anything'), [])).to.equal(false);
  });

  it('follows the formula, with the weights scaled to a mean of 2.2', () => {
    const anchors = [anchor('loan', 8), anchor('card', 2)];
    const load = 2.2 * (8 / 5) * rarity('loan');
    expect(lexicalMatch(stems('a loan, please'), anchors)).to.be.closeTo(1 - Math.exp(-load / 1.5), 1e-9);
    expect(lexicalMatch(stems('nothing'), anchors)).to.equal(0);
  });
});

describe('text score', () => {
  it('is the calibrated logistic of both', () => {
    const anchors = [anchor('loan', 5, [1, 0])];
    const text = { stems: stems('weather'), vector: Float32Array.from([0.3, Math.sqrt(1 - 0.09)]) };
    const expected = 1 / (1 + Math.exp(-(calibration.semantic * 0.3 + calibration.intercept)));
    expect(scoreText(text, anchors, calibration)).to.be.closeTo(expected, 1e-6);
  });

  it('goes by words alone without an embedding', () => {
    const anchors = [anchor('loan', 5), anchor('mortgage rate', 5)];
    const score = (text: string) => scoreText({ stems: stems(text), vector: null }, anchors, calibration);
    expect(score('what is the mortgage rate for this loan')).to.be.greaterThan(0.5);
    expect(score('how is the weather')).to.be.lessThan(0.35);
  });

  it('refuses a model without calibration', () => {
    expect(() => calibrationFor('unknown-model')).to.throw('"unknown-model"');
    expect(scorerVersion(calibration)).to.include(calibration.modelId);
  });
});

describe('reading a turn', () => {
  it('knows turns of courtesy', () => {
    for (const text of ['Hi!', 'Thank you so much', 'yes, please', 'OK, got it.', 'That’s great'])
      expect(isCourtesy(text), text).to.equal(true);
    for (const text of ['Thanks, and the loan?', 'Hello world']) expect(isCourtesy(text), text).to.equal(false);
  });

  const switches: [string, string][] = [
    ["Forget the mortgage, let's talk about football", 'football'],
    ["forget about my loan. What's a good pizza recipe?", "What's a good pizza recipe?"],
    ['Never mind that, how do I grow tomatoes?', 'how do I grow tomatoes?'],
    ["OK enough about cards; let's switch the topic to jazz music", 'jazz music'],
    ['Changing the subject: who won the match?', 'who won the match?'],
    ["Let's move on to interest rates", 'interest rates'],
  ];
  for (const [text, clause] of switches) {
    it(`hears the new topic in "${text}"`, () => expect(clauseAfterSwitch(text)).to.equal(clause));
  }

  for (const text of [
    "Don't forget my appointment, it is on Monday",
    'I forgot my PIN, what now?',
    'Forget it.',
    'What is a loan?',
  ]) {
    it(`hears no change of topic in "${text}"`, () => expect(clauseAfterSwitch(text)).to.equal(null));
  }
});

describe('scoring a round', () => {
  const anchors = [anchor('loan', 5, [1, 0]), anchor('mortgage', 5, [1, 0])];
  const onTopic = Float32Array.from([1, 0]);
  const offTopic = Float32Array.from([0, 1]);
  const vectorOf = (text: string) => (/loan|mortgage/i.test(text) ? onTopic : offTopic);
  const score = (user: string, previousUser: string | null = null, agent = 'A loan can be repaid early.') =>
    scoreRound({ user, agent, previousUser }, anchors, { vectorOf, analyze, calibration });

  it('embeds the turn, the reply, and a short turn with the one before', () => {
    const texts = { user: 'And how long?', agent: 'Two years.', previousUser: 'Tell me about loans.' };
    expect(textsToEmbed(texts, analyze)).to.deep.equal([
      'And how long?',
      'Two years.',
      'Tell me about loans.\nAnd how long?',
    ]);
    expect(textsToEmbed({ ...texts, previousUser: null }, analyze)).to.have.length(2);
  });

  it('counts a short follow-up of an on-topic turn as on topic', () => {
    expect(score('And how long exactly?').user).to.be.lessThan(0.1);
    expect(score('And how long exactly?', 'Tell me about loans.').user).to.be.closeTo(0.8, 0.01);
  });

  it('scores only the new topic of an explicit change, and not as a follow-up', () => {
    expect(score("Forget the loan, let's talk about football", 'Tell me about loans.').user).to.be.lessThan(0.1);
  });

  it('finds neutral turns, but not where an anchor occurs', () => {
    expect(score('Thanks!').neutral).to.equal(true);
    expect(score('And the loan?').neutral).to.equal(false);
    expect(score('How do I plant tomatoes?').neutral).to.equal(false);
  });

  it('notices a refusal', () => {
    expect(score('Tell me a secret', null, "I'm sorry, but I can't help with that.").refusal).to.deep.equal({
      kind: 'policy',
      score: 1,
    });
    expect(score('Tell me of loans').refusal).to.equal(null);
  });

  it('says when it went by words alone', () => {
    const scored = scoreRound({ user: 'a loan', agent: 'b', previousUser: null }, anchors, {
      vectorOf: () => null,
      analyze,
      calibration,
    });
    expect(scored.isDegraded).to.equal(true);
  });
});
