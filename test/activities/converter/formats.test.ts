import { utils, write } from '@e965/xlsx';
import { expect } from 'chai';
import {
  type ConverterEnvironment,
  createConverterEnvironment,
  needsPdfium,
} from '#test/support/converter-environment.ts';
import { docxFile, docxParagraph, pdfFile } from '#test/support/document-fixtures.ts';
import { odfFile } from '#test/support/office-fixtures.ts';

describe('converting a file to Markdown', () => {
  let environment: ConverterEnvironment;
  before(async () => {
    environment = await createConverterEnvironment();
  });
  after(() => environment.remove());

  it('keeps text and Markdown unchanged', async () => {
    const text = await environment.convert('notes.txt', 'One\r\n\r\n\r\nTwo\u200b');
    expect(text).to.eql({
      body: 'One\n\nTwo',
      pageMap: null,
      pageCount: null,
      sourceFormat: 'text',
      title: null,
      pagesLeft: 0,
    });
    const markdown = await environment.convert('notes.md', '# Title\n\n- item');
    expect(markdown).to.include({ body: '# Title\n\n- item', title: 'Title', sourceFormat: 'markdown' });
  });

  it('puts source code into a fenced block', async () => {
    const { body, title } = await environment.convert('job.py', '# not a heading\nprint("```")\n');
    expect(body).to.equal('````python\n# not a heading\nprint("```")\n````');
    expect(title).to.equal(null);
  });

  it('reads the main part of a web page with headings, lists, tables and unbroken phrases', async () => {
    const paragraph = 'The <b>annual</b> report of the <a href="https://example.com/x_y">supply office</a> is public.';
    const page = `<!doctype html><html><head><title>Report</title><style>p{}</style></head><body>
      <nav><a href="/">Home</a> <a href="/b">About us</a></nav>
      <article><h2>Findings</h2>${`<p>${paragraph}</p>`.repeat(12)}
      <ul><li>first</li><li>second</li></ul>
      <table><tr><th>Code</th><th>Sum</th></tr><tr><td>A<br>B</td><td>3</td></tr></table>
      <pre><code class="language-sql">select 1</code></pre></article>
      <script>alert(1)</script></body></html>`;
    const { body, title, sourceFormat } = await environment.convert('page.pdf', page);
    expect(sourceFormat).to.equal('html');
    expect(title).to.equal('Report');
    expect(body).to.contain('# Report\n\n## Findings\n\nThe annual report of the supply office is public.');
    expect(body).to.contain('- first\n- second');
    expect(body).to.contain('```sql\nselect 1\n```');
    expect(body).to.contain('| Code | Sum |\n| --- | --- |\n| A B | 3 |');
    expect(body).to.not.match(/alert|About us|https/);
  });

  it('reads a web page without a main part completely', async () => {
    const links = Array.from({ length: 40 }, (_, index) => `<li><a href="/${index}">Office number ${index}</a></li>`);
    const { body } = await environment.convert('list.html', `<html><body><ul>${links.join('')}</ul></body></html>`);
    expect(body).to.contain('- Office number 0\n').and.to.contain('- Office number 39');
  });

  it('reads web pages without optional tags', async () => {
    const { body } = await environment.convert('page.html', '<!doctype html><title>Office</title><p>Open at nine');
    expect(body).to.equal('# Office\n\nOpen at nine');
    expect((await environment.convert('bare.html', '<body><p>Open at nine')).body).to.equal('Open at nine');
  });

  it('reads CSV and JSON', async () => {
    const csv = await environment.convert('a.csv', 'Name,Age\nAnn,30\n');
    expect(csv.body).to.equal('| Name | Age |\n| --- | --- |\n| Ann | 30 |');
    const json = await environment.convert('a.json', '{"name":"Ann"}');
    expect(json.body).to.equal('- name: Ann');
  });

  it('reads Word files with localized heading styles, lists and tables', async () => {
    const cell = (text: string) => `<w:tc>${docxParagraph(text)}</w:tc>`;
    const row = (...texts: string[]) => `<w:tr>${texts.map(cell).join('')}</w:tr>`;
    const file = docxFile(
      docxParagraph('Leave policy', 'H1') +
        docxParagraph('Anspruch', 'berschrift2') +
        docxParagraph('Every employee has 30 days.') +
        `<w:tbl>${row('Year', 'Days')}${row('2024', '30')}</w:tbl>`,
    );
    const { body, title } = await environment.convert('policy.docx', file);
    expect(body).to.equal(
      '# Leave policy\n\n## Anspruch\n\nEvery employee has 30 days.\n\n| Year | Days |\n| --- | --- |\n| 2024 | 30 |',
    );
    expect(title).to.equal('Leave policy');
  });

  it('reads spreadsheets with a page for each sheet', async () => {
    const book = utils.book_new();
    utils.book_append_sheet(
      book,
      utils.aoa_to_sheet([
        ['Name', 'Age'],
        ['Ёж', 3],
      ]),
      'Animals',
    );
    utils.book_append_sheet(book, utils.aoa_to_sheet([['words']]), 'Second');
    for (const [bookType, format] of [
      ['biff8', 'xls'],
      ['xlsx', 'xlsx'],
      ['ods', 'ods'],
    ] as const) {
      const file: Buffer = write(book, { type: 'buffer', bookType });
      const { body, pageMap, sourceFormat } = await environment.convert('table.bin', file);
      expect(sourceFormat).to.equal(format);
      expect(body).to.equal('## Animals\n\n| Name | Age |\n| --- | --- |\n| Ёж | 3 |\n\n## Second\n\nwords');
      expect(pageMap).to.eql([0, body.indexOf('## Second')]);
    }
  });

  it('reads mail with any file name', async () => {
    const mail = 'From: Ann <ann@example.org>\nMIME-Version: 1.0\nSubject: Keys\n\nAt the door.\n';
    const { body, sourceFormat, title, pageMap } = await environment.convert('mail.txt', mail);
    expect(body).to.equal('# Keys\n\nFrom: Ann <ann@example.org>\n\nAt the door.');
    expect({ sourceFormat, title, pageMap }).to.eql({ sourceFormat: 'eml', title: 'Keys', pageMap: null });
  });

  it('reads presentations with a page map', async () => {
    const frame = (text: string) => `<draw:frame><draw:text-box><text:p>${text}</text:p></draw:text-box></draw:frame>`;
    const slides = ['one', 'two'].map((text) => `<draw:page>${frame(text)}</draw:page>`);
    const { body, pageMap, title, sourceFormat } = await environment.convert(
      'plan.odp',
      odfFile('presentation', slides.join(''), { title: 'Plan' }),
    );
    expect(sourceFormat).to.equal('odp');
    expect(body).to.equal('## Slide 1\n\none\n\n## Slide 2\n\ntwo');
    expect(pageMap).to.eql([0, body.indexOf('## Slide 2')]);
    expect(title).to.equal('Plan');
  });

  it('reads PDF files with a page map', async function () {
    needsPdfium(this);
    const file = pdfFile([
      [
        { text: 'Leave policy', x: 50, y: 750, size: 18, font: 'bold' },
        { text: 'Every employee has thirty days of leave in each and every year of', x: 50, y: 720 },
        { text: 'employment.', x: 50, y: 708 },
        { text: 'Year', x: 50, y: 660 },
        { text: 'Days', x: 200, y: 660 },
        { text: '2024', x: 50, y: 640 },
        { text: '30', x: 200, y: 640 },
      ],
      [{ text: 'Second page.', x: 50, y: 750 }],
    ]);
    const { body, pageMap, pageCount, title } = await environment.convert('policy.pdf', file);
    expect(body).to.equal(
      '# Leave policy\n\nEvery employee has thirty days of leave in each and every year of employment.\n\nYear Days\n2024 30\n\nSecond page.',
    );
    expect(pageMap).to.eql([0, body.indexOf('Second page.')]);
    expect(pageCount).to.equal(2);
    expect(title).to.equal('Leave policy');
  });
});
