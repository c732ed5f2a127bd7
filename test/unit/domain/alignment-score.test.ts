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
const vector = (...numbers: number[]) => Float32Array.from(numbers);
const anchor = (words: string, weight: number, at: number[] | null = null): StemmedAnchorWord => ({
  ...{ stems: stems(words), weight },
  vector: at && vector(...at),
});

describe('the alignment score of a text', () => {
  it('weights a word by its rarity: 1 for an unknown word, and less for a more frequent word', () => {
    expect(rarityOfWordStem('zyzzyva')).to.equal(1);
    expect(rarityOfWordStem('mortgag')).to.be.within(0.5, 1);
    expect(rarityOfWordStem('the')).to.be.lessThan(rarityOfWordStem('credit'));
  });

  it('rates meaning by a mean of the cosines to the anchor words, in which similar and heavy words count most', () => {
    const best = [anchor('a', 5, [1, 0]), anchor('b', 5, [0, 1]), anchor('c', 5, [0, 1])];
    expect(semanticMatchWithAnchorWords(vector(1, 0), best)).to.be.closeTo(1, 0.001);
    const weighted = [anchor('a', 3, [1, 0]), anchor('b', 1, [0.6, 0.8])];
    const [e1, e2] = [3 * Math.exp(10), Math.exp(6)];
    expect(semanticMatchWithAnchorWords(vector(2, 0), weighted)).to.be.closeTo((e1 + e2 * 0.6) / (e1 + e2), 1e-6);
    expect(semanticMatchWithAnchorWords(vector(1), [anchor('a', 1)])).to.equal(null);
    expect(cosineSimilarity(vector(0, 0), vector(1, 0))).to.equal(0);
  });

  it('matches words by stems and contiguous phrases, with the weights scaled to a mean of 2.2', () => {
    expect(containsStemPhrase(stems('our interest rates fell'), stems('interest rate'))).to.equal(true);
    expect(containsStemPhrase(stems('interest in rates'), stems('interest rate'))).to.equal(false);
    expect(containsStemPhrase(stems('anything'), [])).to.equal(false);
    const anchors = [anchor('loan', 8), anchor('card', 2)];
    const load = 2.2 * (8 / 5) * rarityOfWordStem('loan');
    expect(lexicalMatchWithAnchorWords(stems('a loan, please'), anchors)).to.be.closeTo(
      1 - Math.exp(-load / 1.5),
      1e-9,
    );
    expect(lexicalMatchWithAnchorWords(stems('nothing'), anchors)).to.equal(0);
  });

  it('is a calibrated logistic function of word and meaning matches, or of word matches alone', () => {
    const text = { stems: stems('weather'), vector: vector(0.3, Math.sqrt(1 - 0.09)) };
    const expected = 1 / (1 + Math.exp(-(calibration.semantic * 0.3 + calibration.intercept)));
    expect(scoreTextAlignment(text, [anchor('loan', 5, [1, 0])], calibration)).to.be.closeTo(expected, 1e-6);
    const anchors = [anchor('loan', 5), anchor('mortgage rate', 5)];
    const score = (said: string) => scoreTextAlignment({ stems: stems(said), vector: null }, anchors, calibration);
    expect(score('what is the mortgage rate for this loan')).to.be.greaterThan(0.5);
    expect(score('how is the weather')).to.be.lessThan(0.35);
  });

  it('uses the calibration of the embedding model, and fails for a model that has no calibration', () => {
    expect(() => alignmentCalibrationFor('unknown-model')).to.throw('"unknown-model"');
    expect(scorerVersion(calibration)).to.include(calibration.modelId);
    expect(scorerVersion(calibration, true)).to.equal(`${scorerVersion(calibration)}/words`);
  });
});

describe('analysing a message', () => {
  it('recognises courtesy messages', () => {
    for (const text of ['Hi!', 'Thank you so much', 'yes, please', 'OK, got it.', 'That’s great'])
      expect(isCourtesyMessage(text), text).to.equal(true);
    for (const text of ['Thanks, and the loan?', 'Hello world']) expect(isCourtesyMessage(text), text).to.equal(false);
  });

  it('finds the new topic if the user explicitly changes the topic', () => {
    for (const [text, topic] of [
      ["Let's talk about jazz  ", 'jazz'],
      ["Forget the mortgage, let's talk about football", 'football'],
      ["forget about my loan. What's a good pizza recipe?", "What's a good pizza recipe?"],
      ['Never mind that, how do I grow tomatoes?', 'how do I grow tomatoes?'],
      ["OK enough about cards; let's switch the topic to jazz music", 'jazz music'],
      ['Changing the subject: who won the match?', 'who won the match?'],
      ["Let's move on to interest rates", 'interest rates'],
      ["Don't forget my appointment, it is on Monday", null],
      ['I forgot my PIN, what now?', null],
      ['Forget it.', null],
      ['What is a loan?', null],
    ] as const) {
      expect(newTopicAfterTopicSwitch(text), text).to.equal(topic);
    }
  });
});

describe('scoring a round', () => {
  const anchors = [anchor('loan', 5, [1, 0]), anchor('mortgage', 5, [1, 0])];
  const [onTopic, offTopic] = [vector(1, 0), vector(0, 1)];
  const readRefusal = createRefusalDetector(analyze, calibration.modelId);
  const alone = { previousUser: null, previousReply: null, agent: 'A loan can be repaid early.' };
  type VectorOf = (text: string) => Float32Array | null;
  const byWord: VectorOf = (text) => (/loan|mortgage/i.test(text) ? onTopic : offTopic);
  const score = (user: string, others: Partial<RoundTexts> = {}, vectorOf = byWord) =>
    scoreRound({ ...alone, ...others, user }, anchors, { vectorOf, analyze, calibration, readRefusal });
  const isOnTopic = (user: string, others?: Partial<RoundTexts>) => {
    const { user: rated } = score(user, others);
    expect(rated < 0.1 || Math.abs(rated - 0.8) < 0.01, `${user}: ${rated}`).equal(true);
    return rated > 0.5;
  };
  const before = { previousUser: 'Tell me about loans.', previousReply: 'Which loan is it?' };

  it('embeds message and reply, and a short message also joined to the previous message and the previous reply', () => {
    const texts = {
      ...{ user: 'And how long?', agent: 'Two years.' },
      ...{ previousUser: 'Tell me about loans.', previousReply: 'With pleasure. Do you know what a loan is?' },
    };
    expect(roundTextsToEmbed(texts, analyze)).to.deep.equal([
      'And how long?',
      'Two years.',
      'Tell me about loans.\nAnd how long?',
      'Do you know what a loan is?\nAnd how long?',
    ]);
    expect(roundTextsToEmbed({ ...texts, previousUser: null, previousReply: null }, analyze)).to.have.length(2);
  });

  it('scores a short follow-up of an on-topic message or question as on topic', () => {
    for (const [user, others, expected] of [
      ['And how long exactly?', {}, false],
      ['And how long exactly?', { previousUser: 'Tell me about loans.' }, true],
      ['The red one.', { previousReply: 'Gladly. Which loan is it?' }, true],
      ['The red one.', { previousReply: 'About that loan. What else?' }, false],
      // Eight words stand on their own, unless fewer than four are content words.
      ['one two six four five six two', before, true],
      ['one two six four five six two eight', before, false],
      ['and how long will it then be for me to wait', before, true],
    ] as const) {
      expect(isOnTopic(user, others), user).equal(expected);
    }
  });

  it('scores a message that explicitly changes the topic, and the next message, by the new topic only', () => {
    const change = "Forget the loan, let's talk about football";
    expect(isOnTopic(change, before)).equal(false);
    expect([score(change).neutral, score('football').neutral]).to.deep.equal([false, true]);
    const texts = roundTextsToEmbed({ ...alone, user: 'Who won?', previousUser: change }, analyze);
    expect(texts).to.include('football\nWho won?');
    expect(isOnTopic('Who won?', { previousUser: change })).equal(false);
  });

  it('scores a question as on topic if an on-topic reply answers it and does not decline', () => {
    const question = 'Must my wife and both children sign with me?';
    const vectors: Record<string, Float32Array> = {
      [question]: vector(0.2, 0.98),
      'She signs, they need not.': vector(0.9, 0.436),
      "I can't help with her signature.": vector(0.9, 0.436),
      'Shall we go on with yours?': vector(0.97, -0.243),
    };
    const placed: VectorOf = (text) => vectors[text] ?? vector(0, 0);
    const [, ...replies] = Object.keys(vectors);
    const [answered, ...others] = replies.map((agent) => score(question, { agent }, placed).user);
    expect(answered).to.be.closeTo(0.8, 0.01);
    for (const other of others) expect(other).to.be.lessThan(0.35);
  });

  it('scores a short reply as on topic only if the question is on topic', () => {
    const vectors: Record<string, Float32Array> = {
      'How long?': vector(0.7, 0.714, 0),
      'Two years.': vector(0, 0.5, 0.866),
    };
    const reply = (agent: string) => score('How long?', { agent }, (text) => vectors[text] ?? vector(0, 0, -1)).agent;
    expect(reply('Two years.')).to.be.closeTo(0.8, 0.01);
    expect(reply('Penguins lay eggs.')).to.be.lessThan(0.1);
    expect(reply('Penguins lay eggs. '.repeat(7))).to.be.lessThan(0.1);
    expect(reply('Two years, which may be extended once by another year.')).to.be.lessThan(0.1);
  });

  it('embeds only beginning, middle and end of long texts, and the end of a long previous reply', () => {
    const user = `loan ${'www.a'.repeat(10_000)} mortgage ${'贷款😀'.repeat(10_000)} rates`;
    const texts = { user, agent: '😀'.repeat(60_000), previousUser: user, previousReply: user };
    for (const said of [user, 'And?']) {
      const wanted = roundTextsToEmbed({ ...texts, user: said }, analyze);
      for (const text of wanted) expect(text.length).to.be.lessThan(6_100);
      for (const text of wanted) expect(text.isWellFormed()).to.equal(true);
      expect(wanted.filter((text) => /^loan .*rates/s.test(text))).to.have.length(1);
      const asked = new Set<string>();
      score(said, texts, (text) => asked.add(text) && offTopic);
      expect([...asked]).to.have.members(wanted);
    }
    const short = 'loan '.repeat(1_200);
    expect(roundTextsToEmbed({ ...alone, user: short }, analyze)[0]).to.equal(short);
    const previousReply = `A loan. ${'word '.repeat(100_000)}`;
    expect(roundTextsToEmbed({ ...alone, user: 'And?', previousReply }, analyze).at(-1)?.length).to.be.lessThan(500);
  });

  it('recognises neutral messages and refusals, and marks scores from words alone as degraded', () => {
    const neutral = ['Thanks!', 'And the loan?', 'How do I plant tomatoes?'].map((user) => score(user).neutral);
    expect(neutral).to.deep.equal([true, false, false]);
    const { refusal } = score('Tell me a secret', { agent: "I'm sorry, but I can't help with that." });
    expect(refusal).to.include({ kind: 'policy', score: 1 });
    expect(score('Tell me of loans').refusal.score).to.be.lessThan(0.5);
    const unread = (text: string) => score('a loan', {}, (each) => (each === text ? null : onTopic)).isDegraded;
    expect(['a loan', alone.agent, 'another'].map(unread)).to.deep.equal([true, true, false]);
    const courteous = [anchor('thanks', 5, [1, 0])];
    const scoring = { vectorOf: byWord, analyze, calibration, readRefusal };
    expect(scoreRound({ ...alone, user: 'Thanks!' }, courteous, scoring).neutral).to.equal(false);
  });
});
