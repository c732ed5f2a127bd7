import { expect } from 'chai';
import { parseDocx } from '#src/adapters/converter/formats/docx.ts';
import { docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { officeNames, relationshipsPart, titlePart } from '#test/support/office-fixtures.ts';

/** A Word file with further parts that its text refers to. */
async function bodyOf(body: string, parts: Record<string, [type: string, content: string]> = {}) {
  const related = Object.entries(parts).map(([name, [type]]): [string, [string, string]] => [name, [type, name]]);
  const bytes = docxFile('', {
    ...Object.fromEntries(Object.entries(parts).map(([name, [, content]]) => [`word/${name}`, content])),
    'word/document.xml': `<w:document ${officeNames}><w:body>${body}</w:body></w:document>`,
    'word/_rels/document.xml.rels': relationshipsPart({
      styles: ['styles', 'styles.xml'],
      site: ['hyperlink', 'https://example.org/fees'],
      ...Object.fromEntries(related),
    }),
  });
  return (await parseDocx({ bytes, fileName: 'a.docx' })).body;
}

const part = (name: string, content: string) => `<w:${name} ${officeNames}>${content}</w:${name}>`;
const run = (content: string) => `<w:r>${content}</w:r>`;
const text = (content: string) => run(`<w:t xml:space="preserve">${content}</w:t>`);
const cell = (content: string, properties = '') =>
  `<w:tc><w:tcPr>${properties}</w:tcPr>${docxParagraph(content)}</w:tc>`;

describe('parseDocx', () => {
  it('numbers lists, sections and paragraphs as Word displays them', async () => {
    const level = (depth: number, format: string, label: string) =>
      `<w:lvl w:ilvl="${depth}"><w:start w:val="1"/><w:numFmt w:val="${format}"/><w:lvlText w:val="${label}"/></w:lvl>`;
    const list = (id: number, ...levels: string[]) =>
      `<w:abstractNum w:abstractNumId="${id}">${levels.join('')}</w:abstractNum>`;
    const numbering = part(
      'numbering',
      list(0, level(0, 'decimal', '%1.'), level(1, 'lowerLetter', '(%2)'), level(2, 'bullet', '·')) +
        list(1, level(0, 'decimal', '%1'), level(1, 'decimal', '%1.%2')) +
        [0, 1].map((id) => `<w:num w:numId="${id + 1}"><w:abstractNumId w:val="${id}"/></w:num>`).join(''),
    );
    const item = (listId: number, depth: number, content: string, style = '') =>
      `<w:p><w:pPr>${style}<w:numPr><w:ilvl w:val="${depth}"/><w:numId w:val="${listId}"/></w:numPr></w:pPr>${text(content)}</w:p>`;
    const heading = '<w:pStyle w:val="H1"/>';
    const body = await bodyOf(
      item(2, 0, 'Terms', heading) +
        item(2, 1, 'Notice') +
        item(1, 0, 'one') +
        item(1, 1, 'one a') +
        item(1, 1, 'one b') +
        item(1, 2, 'point') +
        item(1, 0, 'two') +
        item(1, 1, 'two a') +
        item(2, 0, 'Fees', heading) +
        item(2, 1, 'Due'),
      { 'numbering.xml': ['numbering', numbering] },
    );
    expect(body).to.equal(
      [
        '# 1 Terms',
        '- 1.1 Notice\n1. one\n   - (a) one a\n   - (b) one b\n     - point\n2. two\n   - (a) two a',
        '# 2 Fees',
        '- 2.1 Due',
      ].join('\n\n'),
    );
  });

  it('puts footnotes, endnotes and comments after the paragraph that refers to them', async () => {
    const reference = (kind: string, id: number) => run(`<w:${kind}Reference w:id="${id}"/>`);
    const note = (kind: string, id: number, content: string) =>
      `<w:${kind} w:id="${id}" w:author="Ann">${docxParagraph(content)}</w:${kind}>`;
    const body = await bodyOf(
      `<w:p>${text('The fee is 5 %')}${reference('footnote', 2)}${text(' a year.')}${reference('endnote', 1)}</w:p>` +
        `<w:tbl><w:tr>${cell('Year')}${cell('Sum')}</w:tr><w:tr><w:tc><w:p>${text('2024')}${reference('comment', 0)}</w:p></w:tc>${cell('3')}</w:tr></w:tbl>`,
      {
        'footnotes.xml': ['footnotes', part('footnotes', note('footnote', 2, 'Without tax.'))],
        'endnotes.xml': ['endnotes', part('endnotes', note('endnote', 1, 'Since 2020.'))],
        'comments.xml': ['comments', part('comments', note('comment', 0, 'Is this right?'))],
      },
    );
    expect(body).to.equal(
      [
        'The fee is 5 %[^1] a year.[^2]',
        '[^1]: Without tax.',
        '[^2]: Since 2020.',
        '| Year | Sum |\n| --- | --- |\n| 2024 | 3 |',
        '> Comment by Ann: Is this right?',
      ].join('\n\n'),
    );
  });

  it('repeats a vertically merged cell in each row, and a horizontally merged cell once', async () => {
    const row = (...cells: string[]) => `<w:tr>${cells.join('')}</w:tr>`;
    const merged = (value: string) => `<w:vMerge${value && ` w:val="${value}"`}/>`;
    const table =
      row(cell('Office'), cell('Staff', '<w:gridSpan w:val="2"/>')) +
      row(cell('North', merged('restart')), cell('Ann'), cell('a|b')) +
      row(cell('', merged('')), cell('Bob'), cell('c'));
    expect(await bodyOf(`<w:tbl>${table}</w:tbl>`)).to.equal(
      '| Office | Staff |  |\n| --- | --- | --- |\n| North | Ann | a\\|b |\n| North | Bob | c |',
    );
  });

  it('drops deleted text, hidden text and field codes', async () => {
    const hidden = run('<w:rPr><w:vanish/></w:rPr><w:t>secret</w:t>');
    const body = await bodyOf(
      `<w:p>${text('kept')}<w:del>${run('<w:delText>gone</w:delText>')}</w:del><w:ins>${text(' and added')}</w:ins>${hidden}` +
        `${run('<w:fldChar w:fldCharType="begin"/>')}${run('<w:instrText>DATE</w:instrText>')}${run('<w:fldChar w:fldCharType="end"/>')}</w:p>`,
    );
    expect(body).to.equal('kept and added');
  });

  it('drops text hidden by a style, unless its formatting shows it again', async () => {
    const style = (type: string, id: string, more: string) =>
      `<w:style w:type="${type}" w:styleId="${id}">${more}</w:style>`;
    const vanish = (value = '') => `<w:rPr><w:vanish${value && ` w:val="${value}"`}/></w:rPr>`;
    const basedOn = (id: string) => `<w:basedOn w:val="${id}"/>`;
    const styles = part(
      'styles',
      style('character', 'Secret', vanish()) +
        style('character', 'Secret2', basedOn('Secret')) +
        style('character', 'Shown', basedOn('Secret') + vanish('0')) +
        style('paragraph', 'Aside', vanish()) +
        style('paragraph', 'Aside2', basedOn('Aside')),
    );
    const styled = (styleId: string, content: string, more = '') =>
      run(`<w:rPr><w:rStyle w:val="${styleId}"/>${more}</w:rPr><w:t xml:space="preserve">${content}</w:t>`);
    const body = await bodyOf(
      `<w:p>${text('kept')}${styled('Secret', ' S1')}${styled('Secret2', ' S2')}${styled('Shown', ' shown')}${styled('Secret', ' taken back', '<w:vanish w:val="false"/>')}</w:p>` +
        docxParagraph('S3', 'Aside') +
        docxParagraph('S4', 'Aside2') +
        `<w:p><w:pPr><w:pStyle w:val="Aside"/></w:pPr>${styled('Secret', 'turned round')}</w:p>`,
      { 'styles.xml': ['styles', styles] },
    );
    expect(body).to.equal('kept shown taken back\n\nturned round');
    const defaults = `<w:docDefaults><w:rPrDefault>${vanish()}</w:rPrDefault></w:docDefaults>`;
    expect(await bodyOf(docxParagraph('S5'), { 'styles.xml': ['styles', part('styles', defaults)] })).to.equal('');
    const usual = `<w:style w:type="paragraph" w:default="1" w:styleId="Normal">${vanish()}</w:style>`;
    expect(await bodyOf(docxParagraph('S6'), { 'styles.xml': ['styles', part('styles', usual)] })).to.equal('');
  });

  it('keeps links, alternative texts, text boxes and equations', async () => {
    const equation =
      '<m:oMath><m:r><m:t>x=</m:t></m:r><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:rad><m:deg/><m:e><m:r><m:t>b</m:t></m:r></m:e></m:rad></m:den></m:f></m:oMath>';
    const box = (content: string) => `<w:txbxContent>${docxParagraph(content)}</w:txbxContent>`;
    const body = await bodyOf(
      `<w:p><w:hyperlink r:id="site">${text('The fees')}</w:hyperlink>${text(' are public: ')}${equation}</w:p>` +
        `<w:p>${run('<w:drawing><wp:inline><wp:docPr descr="A red square"/></wp:inline></w:drawing>')}</w:p>` +
        `<w:p>${text('Beside')}${run(`<mc:AlternateContent><mc:Choice>${box('In a box')}</mc:Choice><mc:Fallback>${box('In a box')}</mc:Fallback></mc:AlternateContent>`)}</w:p>`,
    );
    expect(body).to.equal(
      '[The fees](https://example.org/fees) are public: $x=\\frac{a}{\\sqrt{b}}$\n\nA red square\n\nBeside\n\nIn a box',
    );
  });

  it('renders charts as tables', async () => {
    const points = (...values: string[]) =>
      values.map((value, index) => `<c:pt idx="${index}"><c:v>${value}</c:v></c:pt>`).join('');
    const series = `<c:ser><c:tx><c:v>Visits</c:v></c:tx><c:cat>${points('May', 'June')}</c:cat><c:val>${points('3', '5')}</c:val></c:ser>`;
    const chart = `<c:chartSpace ${officeNames}><c:chart><c:title><a:t>By month</a:t></c:title><c:plotArea><c:barChart>${series}</c:barChart></c:plotArea></c:chart></c:chartSpace>`;
    const body = await bodyOf(`<w:p>${run('<w:drawing><c:chart r:id="chart1.xml"/></w:drawing>')}</w:p>`, {
      'chart1.xml': ['chart', chart],
    });
    expect(body).to.equal('By month\n\n|  | Visits |\n| --- | --- |\n| May | 3 |\n| June | 5 |');
  });

  it('keeps each header and footer once, without page numbers', async () => {
    const page = '<w:p><w:fldSimple w:instr=" PAGE "><w:r><w:t>7</w:t></w:r></w:fldSimple></w:p>';
    const body = await bodyOf(docxParagraph('Text'), {
      'header1.xml': ['header', part('hdr', docxParagraph('Ministry of Supply'))],
      'header2.xml': ['header', part('hdr', docxParagraph('Ministry of Supply'))],
      'footer1.xml': ['footer', part('ftr', page + docxParagraph('Confidential'))],
    });
    expect(body).to.equal('Ministry of Supply\n\nText\n\nConfidential');
  });

  it('uses the title property unless it is a default title', async () => {
    const titleOf = async (title: string) => {
      const bytes = docxFile(docxParagraph('Text'), { 'docProps/core.xml': titlePart(title) });
      return (await parseDocx({ bytes, fileName: 'a.docx' })).title;
    };
    expect(await titleOf('Отчёт за год')).to.equal('Отчёт за год');
    expect(await titleOf('Microsoft Word - draft.doc')).to.equal(null);
    expect(await titleOf('')).to.equal(null);
  });

  it('reads a content control with very many paragraphs', async () => {
    const body = await bodyOf(
      `<w:sdt><w:sdtContent>${'<w:p><w:r><w:t>a</w:t></w:r></w:p>'.repeat(150_000)}</w:sdtContent></w:sdt>`,
    );
    expect(body).length(150_000 * 3 - 2);
  });

  it('rejects XML that nests too deeply', async () => {
    const failure = await bodyOf('<w:sdt>'.repeat(100_000)).catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(Error).and.have.property('message').that.contains('nests elements more than');
  });
});
