import { utils, write } from '@e965/xlsx';
import { expect } from 'chai';
import PDFDocument from 'pdfkit';
import { needsPdfium, useConverter } from '#test/support/converter-environment.ts';
import { docxFile, docxParagraph, odfFile, pdfFile } from '#test/support/document-fixtures.ts';

describe('converting a file to Markdown', () => {
  const environment = useConverter();

  const mail = 'From: Ann <ann@example.org>\nMIME-Version: 1.0\nSubject: Keys\n\nAt the door.\n';
  const ofMail = '# Keys\n\nFrom: Ann <ann@example.org>\n\nAt the door.';
  const code = '# not a heading\nprint("```")\n';
  const bare = '<!doctype html><title>Office</title><p>Open at nine';
  const offices = Array.from({ length: 40 }, (_, index) => `Office number ${index}`);
  const links = offices.map((office) => `<li><a href="/">${office}</a></li>`).join('');
  const ofLinks = offices.map((office) => `- ${office}`).join('\n');
  const paragraph = 'The <b>annual</b> report of the <a href="https://example.com/x_y">supply office</a> is public.';
  const article = `<!doctype html><html><head><title>Report</title><style>p{}</style></head><body>
    <nav><a href="/">Home</a> <a href="/b">About us</a></nav>
    <article><h2>Findings</h2>${`<p>${paragraph}</p>`.repeat(12)}
    <ul><li>first</li><li>second</li></ul>
    <table><tr><th>Code</th><th>Sum</th></tr><tr><td>A<br>B</td><td>3</td></tr></table>
    <pre><code class="language-sql">select 1</code></pre></article>
    <script>alert(1)</script></body></html>`;
  const sentences = 'The annual report of the supply office is public.\n\n'.repeat(12);
  const ofArticle =
    `# Report\n\n## Findings\n\n${sentences}- first\n- second\n\n| Code | Sum |\n| --- | --- |\n| A B | 3 |\n\n` +
    '```sql\nselect 1\n```';
  const printed = pdfFile([
    [
      { text: 'Leave policy', x: 50, y: 750, size: 18, font: 'bold' },
      { text: 'Every employee has thirty days of leave in each and every year of', x: 50, y: 720 },
      { text: 'employment.', x: 50, y: 708 },
    ],
    [{ text: 'Second page.', x: 50, y: 750 }],
  ]);
  const ofPrinted =
    '# Leave policy\n\nEvery employee has thirty days of leave in each and every year of employment.\n\nSecond page.';
  const cells = ['Year', '2024'].map((text) => `<w:tr><w:tc>${docxParagraph(text)}</w:tc></w:tr>`).join('');
  const heads = docxParagraph('Leave policy', 'H1') + docxParagraph('Anspruch', 'berschrift2');
  const policy = docxFile(`${heads}<w:tbl>${cells}</w:tbl>`);
  const ofPolicy = '# Leave policy\n\n## Anspruch\n\n| Year |\n| --- |\n| 2024 |';
  const slides = ['one', 'two'].map(
    (text) => `<draw:page><draw:frame><draw:text-box><text:p>${text}</text:p></draw:text-box></draw:frame></draw:page>`,
  );
  const plan = odfFile('presentation', slides.join(''), { title: 'Plan' });
  const ofPlan = '## Slide 1\n\none\n\n## Slide 2\n\ntwo';
  const ofTable = '## Animals\n\n| Name | Age |\n| --- | --- |\n| Ёж | 3 |\n\n## Second\n\nwords';
  function workbook(bookType: 'biff8' | 'xlsx' | 'ods'): Buffer {
    const book = utils.book_new();
    const animals = [{ Name: 'Ёж', Age: 3 }];
    utils.book_append_sheet(book, utils.json_to_sheet(animals), 'Animals');
    utils.book_append_sheet(book, utils.aoa_to_sheet([['words']]), 'Second');
    return write(book, { type: 'buffer', bookType });
  }

  /** `second` is where the second page begins, for a file with pages. */
  const files: [name: string, string | Buffer, format: string, body: string, title: string | null, second?: string][] =
    [
      ['notes.txt', 'One\r\n\r\n\r\nTwo\u200b', 'text', 'One\n\nTwo', null],
      ['notes.md', '# Title\n\n- item', 'markdown', '# Title\n\n- item', 'Title'],
      ['job.py', code, 'code', `\`\`\`\`python\n${code}\`\`\`\``, null],
      ['a.csv', 'Name,Age\nAnn,30\n', 'csv', '| Name | Age |\n| --- | --- |\n| Ann | 30 |', null],
      ['a.json', '{"name":"Ann"}', 'json', '- name: Ann', null],
      ['mail.txt', mail, 'eml', ofMail, 'Keys'],
      ['page.html', bare, 'html', '# Office\n\nOpen at nine', 'Office'],
      ['bare.html', '<body><p>Open at nine', 'html', 'Open at nine', null],
      // The text of the page alone, without its navigation.
      ['article.pdf', article, 'html', ofArticle, 'Report'],
      ['links.html', `<html><body><ul>${links}</ul></body></html>`, 'html', ofLinks, null],
      ['policy.docx', policy, 'docx', ofPolicy, 'Leave policy'],
      ['policy.pdf', printed, 'pdf', ofPrinted, 'Leave policy', 'Second page.'],
      ['plan.odp', plan, 'odp', ofPlan, 'Plan', '## Slide 2'],
      ['old table.bin', workbook('biff8'), 'xls', ofTable, null, '## Second'],
      ['table.bin', workbook('xlsx'), 'xlsx', ofTable, null, '## Second'],
      ['open table.bin', workbook('ods'), 'ods', ofTable, null, '## Second'],
    ];
  for (const [name, content, sourceFormat, body, title, second] of files) {
    it(`recognizes a file named ${name} with content in the format ${sourceFormat}, and writes it as Markdown`, async function () {
      if (sourceFormat === 'pdf') needsPdfium(this);
      const converted = await environment.convert(name, content);
      const pageCount = second === undefined ? null : 2;
      expect(converted).include({ sourceFormat, body, title, pageCount, pagesLeft: 0 });
      expect(converted.pageMap).eql(second === undefined ? null : [0, body.indexOf(second)]);
    });
  }

  it('keeps the notes and form fields of a PDF that is protected against editing, but not the texts of password fields', async function () {
    needsPdfium(this);
    const document = new PDFDocument({ font: 'Helvetica', ownerPassword: 'owner', permissions: { copying: false } });
    const fields = [
      { label: 'Name of the applicant:', name: 'name', value: 'Ada Lovelace' },
      { label: 'City of birth:', name: 'city', value: 'London' },
      { label: 'Secret word:', name: 'secret', value: 'xyzzy', password: true },
    ];
    document.initForm();
    for (const [index, { label, name, ...options }] of fields.entries()) {
      document.text(label, 72, 100 + index * 40).formText(name, 220, 96 + index * 40, 200, 20, options);
    }
    document.note(72, 400, 20, 20, 'Check the year.').note(72, 500, 20, 20, 'Call her back.').end();
    const { body } = await environment.convert('form.pdf', Buffer.concat(await document.toArray()));
    const form = 'Name of the applicant: Ada Lovelace\n\nCity of birth: London\n\nSecret word:';
    expect(body).equal(`${form}\n\nNote: Check the year.\n\nNote: Call her back.`);
  });

  it('leaves out the text of a PDF that is beside its page or clipped, and keeps the rest of its line', async function () {
    needsPdfium(this);
    const document = new PDFDocument({ font: 'Helvetica', size: [400, 400], margin: 0 });
    const at = { lineBreak: false };
    document.text('Shown left of the fold', 40, 60, at).text('hidden right of the fold', 380, 60, at);
    document.text('Below the page', 40, 500, at).text('Left of the page', -300, 100, at);
    document.save().rect(40, 120, 200, 40).clip().text('In the window', 50, 130, at);
    document.text('Behind the frame', 50, 200, at).restore().end();
    const { body } = await environment.convert('clipped.pdf', Buffer.concat(await document.toArray()));
    expect(body.split('\n\n')).eql(['Shown left of the fold hidd', 'In the window']);
  });

  /** A PDF of one page with these entries in its catalog and page, and these objects from number 7 on. */
  function pdfWith(entries: { catalog: string; page?: string }, objects: string[]): Buffer {
    const numbered = objects.map((object, index) => `${index + 7} 0 obj\n${object}\nendobj\n`).join('');
    const pdf = pdfFile([[{ text: 'Sort', x: 50, y: 700 }]]).toString('latin1');
    const changed = pdf.replace('/Catalog', `/Catalog ${entries.catalog}`).replace('/Page ', `/Page ${entries.page} `);
    return Buffer.from(changed.replace('trailer', `${numbered}trailer`), 'latin1');
  }

  it('writes the options of a form that are displayed, not those that are exported', async function () {
    needsPdfium(this);
    const field = `/Type /Annot /Subtype /Widget /FT /Ch /Rect [100 690 300 710] /Opt [[(t1) (Red)] [(t2) (Blue)] (Green)]`;
    const files = [`/T (a) /Ff 131072 /V (t2)`, `/T (a) /Ff 2097152 /V [(t1) (Green)]`, `/T (a) /Ff 393216 /V (Rose)`];
    const bodies = [];
    for (const value of files) {
      const entries = { catalog: '/AcroForm << /Fields [7 0 R] >>', page: '/Annots [7 0 R]' };
      const { body } = await environment.convert('choices.pdf', pdfWith(entries, [`<< ${field} ${value} >>`]));
      bodies.push(body);
    }
    expect(bodies).eql(['Sort Blue', 'Sort Red, Green', 'Sort Rose']);
  });

  it('reads the captions and values of an XFA form', async function () {
    needsPdfium(this);
    const text = (value: string) => `<value><text>${value}</text></value>`;
    const field = (name: string, widget: string, more = '') =>
      `<field name="${name}"><ui><${widget}/></ui><caption>${text(`${name}:`)}</caption>${more}</field>`;
    const items =
      '<items save="1"><text>de</text><text>fr</text></items><items><text>Germany</text><text>France</text></items>';
    const template = `<template xmlns="http://www.xfa.org/schema/xfa-template/3.0/"><subform name="form1">
      <draw><value><exData><body xmlns="http://www.w3.org/1999/xhtml"><p>Plan of a <b>trip</b></p><p>for two</p></body></exData></value></draw>
      <subform name="head">${field('Name', 'textEdit')}${field('Days', 'numericEdit', '<value><integer>3</integer></value>')}
      ${field('PIN', 'passwordEdit')}${field('Send', 'button')}<draw presence="hidden">${text('Hidden')}</draw>
      ${field('Country', 'choiceList', items)}${field('Insured', 'checkButton', '<items><integer>1</integer></items>')}
      <exclGroup name="by">${field('Train', 'checkButton', '<items><text>T</text></items>')}
      ${field('Ship', 'checkButton', '<items><text>S</text></items>')}</exclGroup></subform>
      <subform name="stop" presence="hidden">${field('Town', 'textEdit')}</subform>
      <subform name="never" presence="hidden">${field('Visa', 'textEdit')}</subform></subform></template>`;
    const data = `<xfa:datasets xmlns:xfa="http://www.xfa.org/schema/xfa-data/1.0/"><xfa:data><form1>
      <head><Name>Ada &amp; Bob</Name><PIN>123</PIN><Country>fr</Country><Insured>1</Insured><by>S</by></head>
      <stop><Town>Lyon</Town></stop><stop><Town>Nice</Town></stop></form1></xfa:data></xfa:datasets>`;
    const packets = [template, data].map((xml) => `<< /Length ${xml.length} >>\nstream\n${xml}\nendstream`);
    const catalog = '/NeedsRendering true /AcroForm << /Fields [] /XFA [(template) 7 0 R (datasets) 8 0 R] >>';
    const { body } = await environment.convert('form.pdf', pdfWith({ catalog }, packets));
    const filled = ['Name: Ada & Bob', 'Days: 3', 'Country: France', 'Insured: [x]', '[ ] Train:', '[x] Ship:'];
    expect(body.split('\n')).eql(['Plan of a trip for two', ...filled, 'Town: Lyon', 'Town: Nice']);
    const damaged = pdfWith(
      { catalog },
      packets.map((packet) => packet.replaceAll('</', '<!')),
    );
    expect((await environment.convert('damaged.pdf', damaged)).body).equal('Sort');
  });

  it('reads a PDF that has lost its end, but none of its objects', async function () {
    needsPdfium(this);
    const whole = pdfFile([[{ text: 'Saved by a broken transfer', x: 50, y: 700 }]]);
    // Signed files have space for the signature, in hexadecimal digits.
    const signed = whole.toString('latin1').replace('/Catalog', `/Catalog /Contents <${'0'.repeat(100_000)}>`);
    for (const [file, end] of [
      [whole, '%%EOF'],
      [whole, 'trailer'],
      [Buffer.from(signed, 'latin1'), 'trailer'],
    ] as const) {
      const { body } = await environment.convert('damaged.pdf', file.subarray(0, file.indexOf(end)));
      expect(body).equal('Saved by a broken transfer');
    }
  });
});
