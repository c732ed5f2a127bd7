import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createRefusalDetector } from '#src/domain/alignment/refusal.ts';
import {
  isCourtesyMessage,
  newTopicAfterTopicSwitch,
  type RoundTexts,
  roundTextsToEmbed,
  scoreRound,
} from '#src/domain/alignment/round.ts';
import {
  alignmentCalibrationFor,
  containsStemPhrase,
  cosineSimilarity,
  lexicalMatchWithAnchorWords,
  rarityOfWordStem,
  type StemmedAnchorWord,
  scorerVersion,
  scoreTextAlignment,
  semanticMatchWithAnchorWords,
} from '#src/domain/alignment/score.ts';

const analyze = createTextAnalyzer();
const stems = (text: string) => analyze(text).map((term) => term.stem);
const calibration = alignmentCalibrationFor('all-minilm-l6-v2-int8-r2');
const anchor = (words: string, weight: number, vector: number[] | null = null): StemmedAnchorWord => ({
  stems: stems(words),
  weight,
  vector: vector && Float32Array.from(vector),
});

describe('word rarity', () => {
  it('is 1 for an unknown word and falls with frequency', () => {
    expect(rarityOfWordStem('zyzzyva')).to.equal(1);
    expect(rarityOfWordStem('mortgag')).to.be.within(0.5, 1);
    expect(rarityOfWordStem('the')).to.be.lessThan(rarityOfWordStem('credit'));
  });
});

describe('semantic match', () => {
  it('is close to the best anchor', () => {
    const anchors = [anchor('a', 5, [1, 0]), anchor('b', 5, [0, 1]), anchor('c', 5, [0, 1])];
    expect(semanticMatchWithAnchorWords(Float32Array.from([1, 0]), anchors)).to.be.closeTo(1, 0.001);
  });

  it('is the weighted soft maximum of the cosines', () => {
    const anchors = [anchor('a', 3, [1, 0]), anchor('b', 1, [0.6, 0.8])];
    const [e1, e2] = [3 * Math.exp(10), Math.exp(6)];
    expect(semanticMatchWithAnchorWords(Float32Array.from([2, 0]), anchors)).to.be.closeTo(
      (e1 + e2 * 0.6) / (e1 + e2),
      1e-6,
    );
  });

  it('has no value without embedded anchors, and a cosine of 0 with a zero vector', () => {
    expect(semanticMatchWithAnchorWords(Float32Array.from([1]), [anchor('a', 1)])).to.equal(null);
    expect(cosineSimilarity(Float32Array.from([0, 0]), Float32Array.from([1, 0]))).to.equal(0);
  });
});

describe('lexical match', () => {
  it('matches stems and contiguous phrases', () => {
    expect(containsStemPhrase(stems('our interest rates fell'), stems('interest rate'))).to.equal(true);
    expect(containsStemPhrase(stems('interest in rates'), stems('interest rate'))).to.equal(false);
    expect(containsStemPhrase(stems('anything'), [])).to.equal(false);
  });

  it('follows the formula, with the weights scaled to a mean of 2.2', () => {
    const anchors = [anchor('loan', 8), anchor('card', 2)];
    const load = 2.2 * (8 / 5) * rarityOfWordStem('loan');
    expect(lexicalMatchWithAnchorWords(stems('a loan, please'), anchors)).to.be.closeTo(
      1 - Math.exp(-load / 1.5),
      1e-9,
    );
    expect(lexicalMatchWithAnchorWords(stems('nothing'), anchors)).to.equal(0);
  });
});

describe('text score', () => {
  it('is the calibrated logistic function of both matches', () => {
    const anchors = [anchor('loan', 5, [1, 0])];
    const text = { stems: stems('weather'), vector: Float32Array.from([0.3, Math.sqrt(1 - 0.09)]) };
    const expected = 1 / (1 + Math.exp(-(calibration.semantic * 0.3 + calibration.intercept)));
    expect(scoreTextAlignment(text, anchors, calibration)).to.be.closeTo(expected, 1e-6);
  });

  it('uses words alone without an embedding', () => {
    const anchors = [anchor('loan', 5), anchor('mortgage rate', 5)];
    const score = (text: string) => scoreTextAlignment({ stems: stems(text), vector: null }, anchors, calibration);
    expect(score('what is the mortgage rate for this loan')).to.be.greaterThan(0.5);
    expect(score('how is the weather')).to.be.lessThan(0.35);
  });

  it('rejects a model without calibration', () => {
    expect(() => alignmentCalibrationFor('unknown-model')).to.throw('"unknown-model"');
    expect(scorerVersion(calibration)).to.include(calibration.modelId);
  });
});

describe('analysing a message', () => {
  it('recognises courtesy messages', () => {
    for (const text of ['Hi!', 'Thank you so much', 'yes, please', 'OK, got it.', 'That’s great'])
      expect(isCourtesyMessage(text), text).to.equal(true);
    for (const text of ['Thanks, and the loan?', 'Hello world']) expect(isCourtesyMessage(text), text).to.equal(false);
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
    it(`finds the new topic in "${text}"`, () => expect(newTopicAfterTopicSwitch(text)).to.equal(clause));
  }

  for (const text of [
    "Don't forget my appointment, it is on Monday",
    'I forgot my PIN, what now?',
    'Forget it.',
    'What is a loan?',
  ]) {
    it(`finds no change of topic in "${text}"`, () => expect(newTopicAfterTopicSwitch(text)).to.equal(null));
  }
});

describe('scoring a round', () => {
  const anchors = [anchor('loan', 5, [1, 0]), anchor('mortgage', 5, [1, 0])];
  const onTopic = Float32Array.from([1, 0]);
  const offTopic = Float32Array.from([0, 1]);
  const readRefusal = createRefusalDetector(analyze, calibration.modelId);
  const vectorOf = (text: string) => (/loan|mortgage/i.test(text) ? onTopic : offTopic);
  const alone = { previousUser: null, previousReply: null, agent: 'A loan can be repaid early.' };
  const score = (user: string, others: Partial<RoundTexts> = {}) =>
    scoreRound({ ...alone, ...others, user }, anchors, { vectorOf, analyze, calibration, readRefusal });

  it('embeds message and reply, and a short message with the previous round', () => {
    const texts = {
      user: 'And how long?',
      agent: 'Two years.',
      previousUser: 'Tell me about loans.',
      previousReply: 'With pleasure. Do you know what a loan is?',
    };
    expect(roundTextsToEmbed(texts, analyze)).to.deep.equal([
      'And how long?',
      'Two years.',
      'Tell me about loans.\nAnd how long?',
      'Do you know what a loan is?\nAnd how long?',
    ]);
    expect(roundTextsToEmbed({ ...texts, previousUser: null, previousReply: null }, analyze)).to.have.length(2);
  });

  it('scores a short follow-up of an on-topic message as on topic', () => {
    expect(score('And how long exactly?').user).to.be.lessThan(0.1);
    expect(score('And how long exactly?', { previousUser: 'Tell me about loans.' }).user).to.be.closeTo(0.8, 0.01);
  });

  it("scores a short answer to the agent's question as on topic", () => {
    expect(score('The red one.', { previousReply: 'Gladly. Which loan is it?' }).user).to.be.closeTo(0.8, 0.01);
    expect(score('The red one.', { previousReply: 'About that loan. What else?' }).user).to.be.lessThan(0.1);
  });

  it('scores eight words on their own, unless fewer than four are content words', () => {
    const before = { previousUser: 'Tell me about loans.', previousReply: 'Which loan is it?' };
    expect(score('one two six four five six two', before).user).to.be.closeTo(0.8, 0.01);
    expect(score('one two six four five six two eight', before).user).to.be.lessThan(0.1);
    expect(score('and how long will it then be for me to wait', before).user).to.be.closeTo(0.8, 0.01);
  });

  it('scores a question as on topic if an on-topic reply answers it and does not decline', () => {
    const vectors: Record<string, number[]> = {
      'Must my wife and both children sign with me?': [0.2, 0.98],
      'She signs, they need not.': [0.9, 0.436],
      "I can't help with her signature.": [0.9, 0.436],
      'Shall we go on with yours?': [0.97, -0.243],
    };
    const placed = (text: string) => Float32Array.from(vectors[text] ?? [0, 0]);
    const question = (agent: string) =>
      scoreRound({ ...alone, user: 'Must my wife and both children sign with me?', agent }, anchors, {
        vectorOf: placed,
        analyze,
        calibration,
        readRefusal,
      }).user;
    expect(question('She signs, they need not.')).to.be.closeTo(0.8, 0.01);
    expect(question("I can't help with her signature.")).to.be.lessThan(0.35);
    expect(question('Shall we go on with yours?')).to.be.lessThan(0.35);
  });

  it('reads only the end of a long reply, in bounded time', () => {
    const previousReply = `A loan. ${'word '.repeat(100_000)}`;
    expect(roundTextsToEmbed({ ...alone, user: 'And?', previousReply }, analyze).at(-1)?.length).to.be.lessThan(500);
  });

  it('embeds only beginning, middle and end of long texts', () => {
    const user = `loan ${'www.a'.repeat(10_000)} mortgage ${'贷款😀'.repeat(10_000)} rates`;
    const texts = { user, agent: '😀'.repeat(60_000), previousUser: user, previousReply: user };
    for (const { user } of [texts, { user: 'And?' }]) {
      const wanted = roundTextsToEmbed({ ...texts, user }, analyze);
      for (const text of wanted) expect(text.length).to.be.lessThan(6_100);
      for (const text of wanted) expect(text.isWellFormed()).to.equal(true);
      expect(wanted.filter((text) => /^loan .*rates/s.test(text))).to.have.length(1);
      const asked: string[] = [];
      const note = (text: string) => {
        asked.push(text);
        return offTopic;
      };
      scoreRound({ ...texts, user }, anchors, { vectorOf: note, analyze, calibration, readRefusal });
      expect([...new Set(asked)]).to.have.members(wanted);
    }
    const short = 'loan '.repeat(1_200);
    expect(roundTextsToEmbed({ ...alone, user: short }, analyze)[0]).to.equal(short);
  });

  it('scores only the new topic of an explicit change, and not as a follow-up', () => {
    const before = { previousUser: 'Tell me about loans.', previousReply: 'Which loan?' };
    expect(score("Forget the loan, let's talk about football", before).user).to.be.lessThan(0.1);
  });

  it('does not treat a change of topic as neutral, even if the new topic is one word', () => {
    expect(score("Forget the loan, let's talk about football").neutral).to.equal(false);
    expect(score('football').neutral).to.equal(true);
  });

  it('does not continue a topic that was just abandoned', () => {
    const previousUser = "Forget the loan, let's talk about football";
    expect(roundTextsToEmbed({ ...alone, user: 'Who won?', previousUser }, analyze)).to.include('football\nWho won?');
    expect(score('Who won?', { previousUser }).user).to.be.lessThan(0.1);
  });

  it('scores a short reply as on topic only if it answers an on-topic question', () => {
    const vectors: Record<string, number[]> = { 'How long?': [0.7, 0.714, 0], 'Two years.': [0, 0.5, 0.866] };
    const placed = (text: string) => Float32Array.from(vectors[text] ?? [0, 0, -1]);
    const reply = (user: string, agent: string) =>
      scoreRound({ ...alone, user, agent }, anchors, { vectorOf: placed, analyze, calibration, readRefusal }).agent;
    expect(reply('How long?', 'Two years.')).to.be.closeTo(0.8, 0.01);
    expect(reply('How long?', 'Penguins lay eggs.')).to.be.lessThan(0.1);
    expect(reply('How long?', 'Penguins lay eggs. '.repeat(7))).to.be.lessThan(0.1);
  });

  it('recognises neutral messages, unless an anchor occurs in them', () => {
    expect(score('Thanks!').neutral).to.equal(true);
    expect(score('And the loan?').neutral).to.equal(false);
    expect(score('How do I plant tomatoes?').neutral).to.equal(false);
  });

  it('notices a refusal', () => {
    const agent = "I'm sorry, but I can't help with that.";
    expect(score('Tell me a secret', { agent }).refusal).to.include({ kind: 'policy', score: 1 });
    expect(score('Tell me of loans').refusal.score).to.be.lessThan(0.5);
  });

  it('reports isDegraded when it used words alone', () => {
    const scored = scoreRound({ ...alone, user: 'a loan' }, anchors, {
      vectorOf: () => null,
      analyze,
      calibration,
      readRefusal,
    });
    expect(scored.isDegraded).to.equal(true);
    expect(scorerVersion(calibration, true)).to.equal(`${scorerVersion(calibration)}/words`);
  });
});
