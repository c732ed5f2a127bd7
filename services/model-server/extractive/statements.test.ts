import { expect } from 'chai';
import { splitIntoStatements } from './statements.ts';

const textsOf = (passage: string) => splitIntoStatements(passage).map(({ text }) => text);

describe('splitting a passage into statements', () => {
  it('joins the lines of running text and splits it into sentences', () => {
    const passage =
      'This is a preliminary estimate for the visible damage of the vehicle. Additional damage may be found\n' +
      'after the vehicle has been disassembled. Mr. Diaz was told.';
    expect(textsOf(passage)).to.deep.equal([
      'This is a preliminary estimate for the visible damage of the vehicle.',
      'Additional damage may be found after the vehicle has been disassembled.',
      'Mr. Diaz was told.',
    ]);
  });

  it('does not split the citation of a law', () => {
    expect(textsOf('They refer to 11 U.S.C. § 101. Others do not.')).to.deep.equal([
      'They refer to 11 U.S.C. § 101.',
      'Others do not.',
    ]);
  });

  it('makes each field and each list item a statement, with its heading as context', () => {
    expect(splitIntoStatements('## Return policy\n\n- Within 30 days\n2. Receipt required\n\nFee: none')).to.deep.equal(
      [
        { text: 'Within 30 days', context: 'Return policy. Within 30 days', isTopic: false },
        { text: 'Receipt required', context: 'Return policy. Receipt required', isTopic: false },
        { text: 'Fee: none', context: 'Return policy. Fee: none', isTopic: false },
      ],
    );
  });

  it('recognizes titles in text without markup, and allows quoting them', () => {
    expect(splitIntoStatements('RETURN POLICY\nReturns within 30 days')).to.deep.equal([
      { text: 'RETURN POLICY', context: 'RETURN POLICY', isTopic: true },
      { text: 'Returns within 30 days', context: 'RETURN POLICY. Returns within 30 days', isTopic: false },
    ]);
  });

  it('does not take the header of a table for running text', () => {
    const header = 'Product Code Category Unit Cost Total Value Last Audit Notes In Full';
    expect(textsOf(`${header}\nSKU-8847 Electronics $45.00`)).to.deep.equal([header, 'SKU-8847 Electronics $45.00']);
  });

  it('adds the column names to each row of a table', () => {
    const table = '| Item | Price | Stock |\n|:---|---:|---|\n| Bolt \\| nut | 2 |  |\n| **Nail** | 3 | 9 |';
    expect(textsOf(table)).to.deep.equal(['Item: Bolt | nut; Price: 2', 'Item: Nail; Price: 3; Stock: 9']);
  });

  it('reads a table of two columns as fields under its header', () => {
    expect(splitIntoStatements('| | |\n| --- | --- |\n| Claim | SF-1008 |')).to.deep.equal([
      { text: 'Claim: SF-1008', context: 'Claim: SF-1008', isTopic: false },
    ]);
    expect(splitIntoStatements('# Prices\n| Item | Price |\n| --- | --- |\n| Bolt | 2 |')).to.deep.equal([
      { text: 'Bolt: 2', context: 'Prices. Item, Price. Bolt: 2', isTopic: false },
    ]);
  });

  it('drops Markdown marks, and bracketed numbers that would look like citations', () => {
    expect(textsOf('The **club**[12][3, 4] plays at [Carrow Road](https://example.org) \\(Norwich\\).')).to.deep.equal([
      'The club plays at Carrow Road (Norwich).',
    ]);
  });

  it('puts spaces into a range of numbers in brackets so that it does not look like a citation', () => {
    expect(textsOf('The temperature lies in the range of [0, 1].')).to.deep.equal([
      'The temperature lies in the range of [ 0, 1 ].',
    ]);
  });

  it('cuts long text without punctuation, and returns no statement for an empty passage', () => {
    expect(textsOf('word '.repeat(400)).every((text) => text.length <= 500)).to.equal(true);
    expect(textsOf('\n---\n \n')).to.deep.equal([]);
    expect(textsOf('# Only a heading')).to.deep.equal(['Only a heading']);
  });
});
