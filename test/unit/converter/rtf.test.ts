import { expect } from 'chai';
import { parseRtf } from '#src/adapters/converter/formats/rtf.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const read = async (content: string) =>
  parseRtf({ bytes: Buffer.from(`{\\rtf1\\ansi\\ansicpg1252${content}}`, 'latin1'), fileName: 'a.rtf' });
const bodyOf = async (content: string) => (await read(content)).body;

describe('parseRtf', () => {
  it('decodes code pages and Unicode characters', async () => {
    const fonts = '{\\fonttbl{\\f0\\fcharset0 Arial;}{\\f1\\fcharset204 Arial Cyr;}{\\f2\\fcharset128 MS Mincho;}}';
    expect(
      await bodyOf(
        `${fonts}\\f0 Gr\\'f6\\'dfe {\\f1 \\'cf\\'f0\\'e8\\'e2\\'e5\\'f2} {\\f2\\'93\\'fa\\'96\\'7b} \\u26085?\\uc2\\u8364\\'80x{\\uc0\\u-10179\\u-8704}\\{a\\}\\~b\\emdash c\\par`,
      ),
    ).to.equal('Größe Привет 日本 日€😀{a} b—c');
  });

  it('recognizes headings by style name or outline level', async () => {
    const styles =
      "{\\stylesheet{\\ql Normal;}{\\s1\\outlinelevel0 heading 1;}{\\s2 \\'dcberschrift 2;}{\\s7\\outlinelevel2 Mine;}}";
    const body = await bodyOf(
      `${styles}\\pard\\s1 One\\par\\pard\\s2 Two\\par\\pard\\s7 Three\\par\\pard Text\\par\\pard\\outlinelevel1 Four\\par`,
    );
    expect(body).to.equal('# One\n\n## Two\n\n### Three\n\nText\n\n## Four');
  });

  it('keeps lists with their displayed labels', async () => {
    const item = (depth: number, label: string, text: string) =>
      `\\pard\\ls1\\ilvl${depth}{\\listtext\\tab ${label}\\tab}${text}\\par`;
    const body = await bodyOf(
      item(0, '1.', 'one') +
        item(1, "\\'b7", 'point') +
        item(1, 'o', 'other') +
        item(0, '2.', 'two') +
        item(0, '(b)', 'b'),
    );
    expect(body).to.equal('1. one\n   - point\n   - other\n2. two\n- (b) b');
  });

  it('repeats a cell in each row that it spans', async () => {
    const row = (edges: string, ...cells: string[]) =>
      `\\trowd${edges}\\pard\\intbl ${cells.map((cell) => `${cell}\\cell `).join('')}\\row`;
    const body = await bodyOf(
      row('\\cellx1000\\cellx3000', 'Office', 'Staff') +
        row('\\clvmgf\\cellx1000\\cellx2000\\cellx3010', 'North', 'Ann\\par Lee', 'a|b') +
        row('\\clvmrg\\cellx1000\\cellx2000\\cellx3000', '', 'Bob', 'c') +
        '\\pard After\\par',
    );
    expect(body).to.equal(
      '| Office | Staff |  |\n| --- | --- | --- |\n| North | Ann Lee | a\\|b |\n| North | Bob | c |\n\nAfter',
    );
  });

  it('keeps notes, comments, links, text boxes and alternative texts', async () => {
    const link = '{\\field{\\*\\fldinst{ HYPERLINK "https://example.org/a" }}{\\fldrslt{\\ul our site}}}';
    const note = '{\\super\\chftn{\\footnote\\pard{\\super\\chftn} Without tax.}}';
    const comment = '{\\*\\atnid A}{\\*\\atnauthor Ann}{\\*\\annotation{\\*\\atnref 1}Is this right?}';
    const picture =
      '{\\*\\shppict{\\pict{\\*\\picprop{\\sp{\\sn wzDescription}{\\sv A red square}}}\\pngblip 89504e47}}{\\nonshppict{\\pict 00}}';
    const box = '{\\shp{\\*\\shpinst{\\sp{\\sn fill}{\\sv 1}}{\\shptxt In a box\\par}}{\\shprslt In a box}}';
    expect(
      await bodyOf(`The fee${note} is 5 %${comment}, see ${link}\\par ${picture}\\par Beside${box}\\par`),
    ).to.equal(
      [
        'The fee[^1] is 5 %, see [our site](https://example.org/a)',
        '[^1]: Without tax.',
        '> Comment by Ann: Is this right?',
        'A red square',
        'Beside',
        'In a box',
      ].join('\n\n'),
    );
  });

  it('drops hidden text, deleted text and page numbers', async () => {
    const header = '{\\header Ministry of Supply\\par Page {\\field{\\*\\fldinst PAGE}{\\fldrslt 7}}\\par}';
    expect(
      await bodyOf(
        `{\\*\\generator Word;}${header}{\\headerf Ministry of Supply\\par}kept{\\v secret}{\\deleted gone}\\bin3 {}}\\par`,
      ),
    ).to.equal('Ministry of Supply\n\nkept');
  });

  it('uses the title property', async () => {
    expect(await read('{\\info{\\title Plan}{\\author Ann}}Text')).to.eql({ body: 'Text', title: 'Plan' });
  });

  it('rejects files that end early or nest groups too deeply', async () => {
    const codeOf = (file: string) =>
      appErrorCode((async () => parseRtf({ bytes: Buffer.from(file), fileName: 'a.rtf' }))());
    expect(await codeOf('{\\rtf1 {Text')).to.equal('corrupt_document');
    expect(await codeOf(`{\\rtf1 ${'{\\footnote '.repeat(20_000)}`)).to.equal('corrupt_document');
  });

  it('reads thousands of table rows with different columns', async () => {
    const rows = Array.from({ length: 5_000 }, (_, row) => `\\trowd\\cellx${row * 100}\\pard\\intbl a\\cell\\row`);
    expect(await bodyOf(rows.join(''))).to.match(/^(?:a: a\n?){4999}$/);
  });
});
