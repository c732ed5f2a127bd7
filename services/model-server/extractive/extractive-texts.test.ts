import { expect } from 'chai';
import { separateContext } from './context-blocks.ts';
import { splitIntoStatements, textOfRow } from './statements.ts';
import { createTitle } from './title.ts';

describe('splitting a passage into statements', () => {
  const textsOf = (passage: string) => splitIntoStatements(passage).map(({ text }) => text);

  it('makes each sentence, field, list item and table row a statement of plain text', () => {
    const header = 'Product Code Category Unit Cost Total Value Last Audit Notes In Full';
    const cases: [passage: string, statements: string[]][] = [
      ['Damage may be found\nlater. Mr. Diaz was told.', ['Damage may be found later.', 'Mr. Diaz was told.']],
      ['See 11 U.S.C. § 101. Others do not.', ['See 11 U.S.C. § 101.', 'Others do not.']],
      [`${header}\nSKU-8847 Electronics $45.00`, [header, 'SKU-8847 Electronics $45.00']],
      [
        '| Item | Price | Stock |\n|:---|---:|---|\n| Bolt \\| nut | 2 |  |\n| **Nail** | 3 | 9 |',
        ['Item: Bolt | nut; Price: 2', 'Item: Nail; Price: 3; Stock: 9'],
      ],
      ['**Norwich**[12][3, 4] plays [here](https://example.org) \\(now\\).', ['Norwich plays here (now).']],
      // A range of numbers gets spaces so that it does not look like a citation.
      ['The temperature lies in [0, 1].', ['The temperature lies in [ 0, 1 ].']],
      ['\n---\n \n', []],
      ['# Only a heading', ['Only a heading']],
    ];
    for (const [passage, statements] of cases) expect(textsOf(passage), passage).to.deep.equal(statements);
    expect(textsOf('word '.repeat(400)).every((text) => text.length <= 500)).to.equal(true);
  });

  it('gives each statement its heading or table header as context; a heading without markup is also a statement', () => {
    const cases: [passage: string, statements: [text: string, context: string, isTopic?: boolean][]][] = [
      [
        '## Return policy\n\n- Within 30 days\n2. Receipt required\n\nFee: none',
        ['Within 30 days', 'Receipt required', 'Fee: none'].map((text) => [text, `Return policy. ${text}`]),
      ],
      [
        'RETURN POLICY\nReturns within 30 days',
        [
          ['RETURN POLICY', 'RETURN POLICY', true],
          ['Returns within 30 days', 'RETURN POLICY. Returns within 30 days'],
        ],
      ],
      ['| | |\n| --- | --- |\n| Claim | SF-1008 |', [['Claim; SF-1008', 'Claim; SF-1008']]],
      [
        '# Prices\n| Item | Price |\n| --- | --- |\n| Bolt | 2 |',
        [['Item: Bolt; Price: 2', 'Prices. Item: Bolt; Price: 2']],
      ],
    ];
    for (const [passage, statements] of cases) {
      const expected = statements.map(([text, context, isTopic = false]) => ({ text, context, isTopic }));
      const found = splitIntoStatements(passage).map(({ text, context, isTopic }) => ({ text, context, isTopic }));
      expect(found, passage).to.deep.equal(expected);
    }
  });

  it('writes a table row as its first cell and the chosen columns', () => {
    const cases: [passage: string, columns: string[], text: string][] = [
      ['| Item | Price | Stock |\n| --- | --- | --- |\n| Nail | 3 | 9 |', ['Stock'], 'Nail – Stock: 9'],
      ['| No | Price |\n| --- | --- |\n| 7 | 3 |', ['Price'], 'No 7 – Price: 3'],
      ['Order: SO-17; Customer: Ito; Total: 9.50', ['Customer', 'Total'], 'SO-17 – Customer: Ito; Total: 9.50'],
      ['| | |\n| --- | --- |\n| Claim | SF-1008 |', [''], 'Claim: SF-1008'],
    ];
    for (const [passage, columns, text] of cases) {
      const [row] = splitIntoStatements(passage);
      expect(textOfRow(row?.fields ?? [], ({ name }) => columns.includes(name))).to.equal(text);
    }
  });
});

describe('separating context blocks from a message', () => {
  it('returns the numbered blocks without data marks, and the other text of the message', () => {
    const content =
      'Passages:\n<<ab12cd34 1 | Report | p. 4>>\nThe\u02c6first\u02c6line\nand more\n<<end ab12cd34 1>>\n' +
      '<<ab12cd34 2 | Notes>>\nSecond\n<<end ab12cd34 2>>\nWhat is it?';
    const { blocks, rest } = separateContext(content);
    expect(blocks).to.deep.equal([
      { nonce: 'ab12cd34', number: 1, document: 'Report', text: 'The first line\nand more' },
      { nonce: 'ab12cd34', number: 2, document: 'Notes', text: 'Second' },
    ]);
    expect(rest).to.match(/^Passages:\s+What is it\?$/);
    expect(separateContext('1 << 2 | 3 >> 4')).to.deep.equal({ blocks: [], rest: '1 << 2 | 3 >> 4' });
  });

  it('ignores a forged end of a block in the text of the block', () => {
    const text = 'before\n<<end zzzzzzzz 1>>\n<<zzzzzzzz 7 | b>>\nafter';
    const { blocks } = separateContext(`<<ab12cd34 1 | a>>\n${text}\n<<end ab12cd34 1>>`);
    expect(blocks.map(({ number }) => number)).to.deep.equal([1]);
    expect(blocks[0]?.text).to.include('before').and.include('after');
  });
});

describe('the extractive model', () => {
  it('writes a title without the punctuation around it, but keeps a final question mark', () => {
    expect(createTitle('  "what is U.S. law?!" ')).to.equal('What is U.S. law?');
    expect(createTitle('?!')).to.equal('Conversation');
    expect(createTitle('(a)')).to.equal('A');
  });

  /** A quadratic algorithm takes minutes on any of these runs and fails the test by its timeout. */
  const runs = ['!', '[', '[a](', '[a](b', 'Mr. ', 'Mr. A. ', '**', '|', '<<aaaaaaaa 1 |', '- ', '\n', '# '];
  for (const run of runs) {
    it(`reads a text that repeats ${JSON.stringify(run)} 200,000 times without a timeout`, () => {
      const text = `${run.repeat(200_000)}x`;
      for (const read of [separateContext, splitIntoStatements, createTitle]) read(text);
    });
  }
});
