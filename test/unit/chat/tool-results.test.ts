import { expect } from 'chai';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import { createToolResultFormatter, type FoundPassages } from '#src/modules/chat/tools.ts';

const tokenCounter = createTokenCounter();

function createFormatter() {
  const added: string[] = [];
  const format = createToolResultFormatter({
    tokenCounter,
    citations: {
      add: (chunks) => {
        added.push(...chunks.map(({ chunkId }) => chunkId));
        return chunks.map(({ chunkId }) => added.indexOf(chunkId) + 1);
      },
    },
  });
  return { format, added };
}

function passages(count: number): FoundPassages {
  const chunks = Array.from({ length: count }, (_, index) => ({
    chunkId: `c${index + 1}`,
    documentId: 'd',
    documentName: `Terms ${index + 1}`,
    pageNumber: 1,
    content: 'The fee of the loan is one percent of what is lent. '.repeat(30),
    tokenCount: 5,
    embeddingModel: 'e',
  }));
  return { chunks, note: (numbers) => numbers.map((number) => `Passage ${number} is of document d.`).join('\n') };
}

describe('a tool result for the model', () => {
  it('has the beginning of a long text, and counts only that as read', () => {
    const { format } = createFormatter();
    const output = `${'word '.repeat(2_000_000)} https://evil.example/`;
    const { message, texts, characters, preview } = format('web.fetch', output, Number.POSITIVE_INFINITY);
    expect(message.length).below(9_000);
    expect(texts.join('').length).below(8_010);
    expect(characters).equal(output.length);
    expect(preview).length(300);
  });

  for (const tokens of [50, 172, 300, 500, 1_033, 4_000]) {
    it(`has at most ${tokens} tokens for any output`, () => {
      for (const output of ['word '.repeat(5_000), passages(10), passages(1)]) {
        const { message } = createFormatter().format('knowledge.search', output, tokens);
        expect(tokenCounter.count(message)).within(1, tokens);
      }
    });
  }

  it('leaves out the last passages if not all fit, and numbers only the others', () => {
    const { format, added } = createFormatter();
    const { message, texts } = format('knowledge.search', passages(10), 600);
    expect(added.length).within(1, 9);
    expect(added).deep.equal(added.map((_, index) => `c${index + 1}`));
    expect(message)
      .include(`Passage ${added.length} is of`)
      .and.not.include(`Passage ${added.length + 1} is of`);
    expect(texts).length(added.length * 2);
  });

  it('is one line if nothing fits, and counts nothing as read', () => {
    for (const output of ['word '.repeat(5_000), passages(10)]) {
      const { format, added } = createFormatter();
      const { message, texts } = format('knowledge.search', output, 60);
      expect(message).match(/^There is no room .+$/);
      expect([added, texts]).deep.equal([[], []]);
    }
  });

  it('counts document names as read', () => {
    const { texts } = createFormatter().format('knowledge.search', passages(1), Number.POSITIVE_INFINITY);
    expect(texts[0]).equal('Terms 1');
  });
});
