import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { type CitedPassage, citedStatements, resolveCitations, type Statement } from '#src/domain/citations.ts';
import { contentStems } from '#src/domain/text-analysis.ts';

const analyze = createTextAnalyzer();
const contentWords = (text: string) => contentStems(analyze(text));
const passage = (number: number, text: string, isReadable = true): CitedPassage => ({
  number,
  chunkId: `chunk-${number}`,
  documentId: `document-${number}`,
  isReadable,
  text,
});
const passages = [
  passage(1, 'Parental leave lasts sixteen weeks and is paid in full.'),
  passage(2, 'The office closes at six in the evening.'),
  passage(3, 'Salaries are confidential.', false),
];

function resolve(reply: string, similarity: (statement: Statement, passage: CitedPassage) => number = () => 0) {
  return resolveCitations(citedStatements(reply), passages, { similarity, contentWords });
}

describe('cited statements', () => {
  it('finds markers before and after the full stop, lists and repeats', () => {
    expect(
      citedStatements('Leave is paid [1]. It lasts long. [2, 3] Office hours vary.[1][2]\n- A point [ 4 ]'),
    ).to.deep.equal([
      { text: 'Leave is paid.', cited: [1] },
      { text: 'It lasts long.', cited: [2, 3] },
      { text: 'Office hours vary.', cited: [1, 2] },
      { text: '- A point [ 4 ]', cited: [] },
    ]);
  });
});

describe('citations', () => {
  it('keeps supported ones once, in the order of their first mention', () => {
    const { citations, dropped } = resolve('The office closes at six [2]. Parental leave is paid in full [1][2].');
    expect(citations.map((citation) => citation.chunkId)).to.deep.equal(['chunk-2', 'chunk-1']);
    expect(dropped).to.deep.equal([]);
  });

  it('drops numbers out of range, unreadable chunks and unsupported statements', () => {
    const { citations, dropped } = resolve(
      'Salaries are confidential [3]. Pigs can fly over mountains [1]. Nothing here [9].',
    );
    expect(citations).to.deep.equal([]);
    expect(dropped).to.deep.equal([
      { n: 3, reason: 'unreadable' },
      { n: 1, reason: 'unsupported' },
      { n: 9, reason: 'out_of_range' },
    ]);
  });

  it('lets similarity of 0.35 support a paraphrase', () => {
    const reply = 'New parents stay home for four months [1].';
    expect(resolve(reply, () => 0.35).citations).to.have.length(1);
    expect(resolve(reply, () => 0.34).citations).to.have.length(0);
  });

  it('attributes a reply without markers to passages of similarity 0.6, never to unreadable ones', () => {
    const similarity = (_: Statement, { number }: CitedPassage) => ({ 1: 0.61, 2: 0.4, 3: 0.9 })[number] ?? 0;
    expect(
      resolve('Sixteen weeks. Fully paid.', similarity).citations.map((citation) => citation.chunkId),
    ).to.deep.equal(['chunk-1']);
    expect(resolve('Sixteen weeks.', () => 0.59).citations).to.deep.equal([]);
  });
});
