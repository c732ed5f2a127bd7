import { expect } from 'chai';
import { parseCsv } from '#src/adapters/converter/formats/csv.ts';
import { parseJson } from '#src/adapters/converter/formats/json.ts';

const bodyOf = async (parse: typeof parseCsv, fileName: string, text: string) =>
  String((await parse({ bytes: Buffer.from(text), fileName })).body);

describe('parseCsv', () => {
  it('renders a Markdown table', async () => {
    const body = await bodyOf(parseCsv, 'a.csv', 'Name,Note\r\n"Ann ""A""","one,\ntwo | three"\r\n\r\nBob,\r\n');
    expect(body).to.equal('| Name | Note |\n| --- | --- |\n| Ann "A" | one, two \\| three |\n| Bob |  |');
  });

  it('detects tabs, semicolons and bars as delimiters', async () => {
    for (const delimiter of ['\t', ';', '|']) {
      const body = await bodyOf(parseCsv, 'a.tsv', `a${delimiter}b, c\n1${delimiter}2`);
      expect(body, delimiter).to.equal('| a | b, c |\n| --- | --- |\n| 1 | 2 |');
    }
  });

  it('accepts old line ends and a `sep=` line', async () => {
    const table = '| a | b,c |\n| --- | --- |\n| 1 | 2 |';
    expect(await bodyOf(parseCsv, 'a.csv', 'a;b,c\r1;2\r')).to.equal(table);
    expect(await bodyOf(parseCsv, 'a.csv', 'sep=;\r\na;b,c\r\n1;2')).to.equal(table);
  });

  it('names the columns in every row of a long table', async () => {
    const rows = Array.from({ length: 100 }, (_, index) => `item ${index},${index * 2},`);
    const body = await bodyOf(parseCsv, 'a.csv', ['Name,Price,Note', ...rows].join('\n'));
    expect(body.split('\n')[41]).to.equal('Name: item 41; Price: 82');
  });
});

describe('parseJson', () => {
  it('renders a nested list', async () => {
    const body = await bodyOf(parseJson, 'a.json', '{"name":"x","tags":["a","b"],"in":{"deep":null}}');
    expect(body).to.equal('- name: x\n- tags:\n  - a\n  - b\n- in:\n  - deep:');
  });

  it('renders a list of flat records as a table', async () => {
    const body = await bodyOf(parseJson, 'a.json', '[{"a":1,"b":"x"},{"a":2,"c":true}]');
    expect(body).to.equal('| a | b | c |\n| --- | --- | --- |\n| 1 | x |  |\n| 2 |  | true |');
  });

  it('reads JSON Lines', async () => {
    const body = await bodyOf(parseJson, 'a.jsonl', '{"a":1}\n\n{"a":2}\n');
    expect(body).to.equal('| a |\n| --- |\n| 1 |\n| 2 |');
  });

  it('renders a notebook as text, code and output', async () => {
    const notebook = {
      cells: [
        { cell_type: 'markdown', source: ['# Title\n', 'Words'] },
        {
          cell_type: 'code',
          source: 'print(1)\n',
          outputs: [
            { output_type: 'stream', text: ['1\n'] },
            { output_type: 'display_data', data: { 'image/png': 'iVBO', 'text/plain': '<Figure>' } },
            { output_type: 'display_data', data: { 'text/markdown': '**one**', 'text/plain': 'x' } },
            { output_type: 'error', ename: 'ValueError', evalue: '\u001b[31mno\u001b[0m', traceback: [] },
          ],
        },
      ],
      metadata: { language_info: { name: 'python' } },
    };
    const body = await bodyOf(parseJson, 'a.ipynb', JSON.stringify(notebook));
    expect(body).to.equal(
      '# Title\nWords\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n**one**\n\n```\nValueError: no\n```',
    );
  });

  it('keeps invalid JSON as text', async () => {
    expect(await bodyOf(parseJson, 'a.json', '{"a": 1,')).to.equal('{"a": 1,');
  });
});
