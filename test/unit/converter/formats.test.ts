import { readFileSync } from 'node:fs';
import { utils, write } from '@e965/xlsx';
import { expect } from 'chai';
import iconv from 'iconv-lite';
import { parseCsv } from '#src/adapters/converter/formats/csv.ts';
import { parseDocx } from '#src/adapters/converter/formats/docx.ts';
import { parseEpub } from '#src/adapters/converter/formats/epub.ts';
import { parseHtml } from '#src/adapters/converter/formats/html.ts';
import { parseJson } from '#src/adapters/converter/formats/json.ts';
import { parseEml, parseMsg } from '#src/adapters/converter/formats/mail.ts';
import { parseOdp, parseOdt } from '#src/adapters/converter/formats/opendocument.ts';
import { pdfPagesToMarkdown } from '#src/adapters/converter/formats/pdf-layout.ts';
import { pdfPageMessageSchema } from '#src/adapters/converter/formats/pdf-page.ts';
import { parsePptx } from '#src/adapters/converter/formats/pptx.ts';
import { parseRtf } from '#src/adapters/converter/formats/rtf.ts';
import { parseExcel, parseOds } from '#src/adapters/converter/formats/workbook.ts';
import type { ParsedDocument } from '#src/adapters/converter/parsed-document.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  compoundFile,
  docxFile,
  odfFile,
  officeNames,
  relationshipsPart,
  xlsxFile,
  zipFile,
} from '#test/support/document-fixtures.ts';

type Sections = [name: string, content: string][];
type Parsed = Partial<ParsedDocument> & { pageMap?: readonly number[] | null };

/** A part of an Office file; the cases leave its namespaces out. */
const named = (xml: string) => xml.replace(/^<(?:[wpc]|dgm):\w+/, `$& ${officeNames}`);
const file = (bytes: string | Buffer) => ({ bytes: Buffer.from(bytes), fileName: 'a' });

/** Makes a file of the sections of a case, and reads it. */
const readers: Record<string, (sections: Sections) => Parsed | Promise<Parsed>> = {
  docx: ([[, body] = ['', ''], ...parts]) =>
    parseDocx(
      file(
        docxFile('', {
          ...Object.fromEntries(parts.map(([name, xml]) => [name.includes('/') ? name : `word/${name}`, named(xml)])),
          'word/document.xml': named(`<w:document><w:body>${body}</w:body></w:document>`),
          'word/_rels/document.xml.rels': relationshipsPart({
            styles: ['styles', 'styles.xml'],
            site: ['hyperlink', 'https://example.org/fees'],
            html: ['aFChunk', 'import.html'],
            web: ['aFChunk', 'import.mht'],
            rich: ['aFChunk', 'import.rtf'],
            ...Object.fromEntries(parts.map(([name]) => [name, [name.replace(/\d*\.xml$/, ''), name]])),
          }),
        }),
      ),
    ),
  pptx: (sections) => parsePptx(file(zipFile(Object.fromEntries(showOf(sections))))),
  odt: (sections) => parseOdt(file(odfOf('text', sections))),
  odp: (sections) => parseOdp(file(odfOf('presentation', sections))),
  xlsx: (sections) => parseExcel(file(sheetOf(Object.fromEntries(sections)))),
  ods: (sections) => parseOds(file(odfOf('spreadsheet', sections))),
  pdf: (pages) => pdfPagesToMarkdown(pages.map(([, lines]) => pdfPageOf(lines))),
  rtf: ([[, text] = ['', '']]) => parseRtf(file(Buffer.from(`{\\rtf1\\ansi\\ansicpg1252${text}}`, 'latin1'))),
  eml: ([[, text] = ['', '']]) => parseEml(file(`${text}\n`)),
  epub: (sections) => parseEpub(file(zipFile(Object.fromEntries(bookOf(sections))))),
  html: ([[, text] = ['', '']]) => parseHtml(file(`<!doctype html><html><body>${text}</body></html>`)),
  data: ([[fileName, text] = ['', '']]) => {
    const flat = { fodt: parseOdt, fods: parseOds, doc: parseDocx };
    const parse = { csv: parseCsv, xml: parseHtml, ...flat }[fileName.slice(2)] ?? parseJson;
    return parse({ bytes: Buffer.from(text), fileName });
  },
};

function sheetOf({ sheet, shapes, cells = '', merged = '', formats = '' }: Record<string, string>): Buffer {
  if (sheet !== undefined) return xlsxFile(sheet, shapes);
  const made = utils.aoa_to_sheet(cells.split('\n').map((row) => JSON.parse(row)));
  made['!merges'] = merged.split(' ').filter(Boolean).map(utils.decode_range);
  for (const [, cell = '', format] of formats.matchAll(/(.+) = (.+)/g)) made[cell].z = format;
  return write(utils.book_new(made, 'One'), { type: 'buffer' });
}

function odfOf(kind: 'text' | 'presentation' | 'spreadsheet', [[, body] = ['', ''], ...rest]: Sections): Buffer {
  const { styles = '', 'title of the file': title = '', ...parts } = Object.fromEntries(rest);
  return odfFile(kind, body, { styles, title, parts });
}

/** A page as the PDF process describes it. A line is as wide as its text unless it says otherwise. */
function pdfPageOf(described: string) {
  const lines = described
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [place = '', text = ''] = line.replaceAll('\\ufffe', '\ufffe').split(' | ');
      const [y, ...options] = place.split(' ');
      const given = Object.fromEntries(options.map((option) => option.split('=')));
      const { x = 50, size = 10, width = text.length * Number(size) * 0.5, bold = 0, gap = 0, mono = 0 } = given;
      const right = Number(x) + Number(width);
      return [text, Number(x), right, Number(y), Number(size), bold !== 0, Number(gap), mono !== 0];
    });
  return pdfPageMessageSchema.parse({ lines, isPicture: false, unmapped: 0 });
}

/** The parts of a presentation by their paths, but slides by their names. */
const showOf = (sections: Sections) =>
  sections.map(([section, xml]): [string, string] => {
    const [name, isHidden] = section.split(' ');
    if (!section.startsWith('slide')) return [section, named(xml)];
    const slide = `<p:sld${isHidden ? ' show="0"' : ''}><p:cSld><p:spTree>${xml}</p:spTree></p:cSld></p:sld>`;
    return [`ppt/slides/${name}.xml`, named(slide)];
  });

/** The parts of a book by their paths, but chapters by their names. */
const bookOf = (sections: Sections) =>
  sections.map(([name, content]): [string, string] => {
    if (!/^[^/]+\.xhtml$/.test(name)) return [name, content];
    const type = '<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x.dtd">';
    const head = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>';
    return [`OPS/${name}`, `${type}${head}<body>${content}</body></html>`];
  });

/**
 * The cases of a file: `=== title`, then `--- name` above each given part and each part of the result. What all cases
 * of a format have in common is its skeleton.
 */
function casesOf(format: string): [title: string, sections: Sections][] {
  const text = readFileSync(new URL(`cases/${format}.txt`, import.meta.url), 'utf8');
  return text.split(/^=== /m).flatMap((each): [string, Sections][] => {
    const [title = '', ...sections] = each.trimEnd().split(/\n--- /);
    const named = sections.map((section): [string, string] => {
      const end = section.indexOf('\n');
      return end < 0 ? [section, ''] : [section.slice(0, end), section.slice(end + 1)];
    });
    return title === '' ? [] : [[title, named]];
  });
}

for (const [format, read] of Object.entries(readers)) {
  describe(`reading ${format}`, () => {
    const cases = casesOf(format);
    const skeleton = cases[0]?.[0] === 'skeleton' ? (cases.shift()?.[1] ?? []) : [];
    for (const [title, sections] of cases) {
      it(title, async () => {
        const end = sections.findIndex(([name]) => ['text', 'page', 'error'].includes(name));
        const expected = sections.slice(end);
        const of = (wanted: string) => expected.filter(([name]) => name === wanted).map(([, content]) => content);
        const parsed = (async () => read([...skeleton, ...sections.slice(0, end)]))();
        const [code] = of('error');
        if (code !== undefined) return void expect(await appErrorCode(parsed)).equal(code);
        const { body, title: name, pageMap } = await parsed;
        expect(body).eql(of('text')[0] ?? of('page'));
        for (const wanted of of('title')) expect(name ?? 'none').equal(wanted);
        for (const wanted of of('starts of pages')) expect(pageMap?.join(' ')).equal(wanted);
      });
    }
  });
}

describe('reading a document in a part of a document', () => {
  it('reads its text, but no parts of it', async () => {
    const within = (part: Buffer, text: string) =>
      docxFile(`<w:p><w:r><w:t>${text}</w:t></w:r></w:p>${named('<w:altChunk r:id="x"/>')}`, {
        'word/_rels/document.xml.rels': relationshipsPart({ x: ['aFChunk', 'part.docx'] }),
        'word/part.docx': part,
      });
    const { body } = await parseDocx(file(within(within(docxFile(''), 'Inner text'), 'Outer text')));
    expect(body).equal('Outer text\n\nInner text');
  });
});

describe('reading large and broken files', () => {
  it('accepts a docx content control with very many paragraphs, and rejects XML that nests too deeply', async () => {
    const many = `<w:sdt><w:sdtContent>${'<w:p><w:r><w:t>a</w:t></w:r></w:p>'.repeat(150_000)}</w:sdtContent></w:sdt>`;
    expect((await readers.docx?.([['document.xml', many]]))?.body).length(150_000 * 3 - 2);
    const deep = Promise.resolve(readers.docx?.([['document.xml', '<w:sdt>'.repeat(100_000)]]));
    const failure = await deep.catch((error: unknown) => error);
    expect(failure).instanceOf(Error).property('message').contains('nests elements more than');
  });

  it('accepts RTF with thousands of different rows, and rejects RTF that ends early or nests too deeply', async () => {
    const rows = Array.from({ length: 5_000 }, (_, row) => `\\trowd\\cellx${row * 100}\\pard\\intbl a\\cell\\row`);
    expect((await readers.rtf?.([['rtf', rows.join('')]]))?.body).match(/^(?:a: a\n?){4999}$/);
    for (const broken of ['{\\rtf1 {Text', `{\\rtf1 ${'{\\footnote '.repeat(20_000)}`]) {
      expect(await appErrorCode((async () => parseRtf(file(broken)))())).equal('corrupt_document');
    }
  });

  it('accepts CSV with the line breaks of old systems', async () => {
    const { body } = await parseCsv(file('a;b,c\r1;2\r'));
    expect(body).equal('| a | b,c |\n| --- | --- |\n| 1 | 2 |');
  });

  it('renders a large table as lines of named values, without empty cells', async () => {
    const { body } = await parseCsv(file(`Name,,Note\n${'Ann,5,\nBob,,late\n'.repeat(200)}`));
    expect(body).match(/^(?:Name: Ann; 5\nName: Bob; Note: late\n?){200}$/);
  });
});

describe('reading an Outlook message', () => {
  const utf16 = (text: string) => Buffer.from(text, 'utf16le');
  /** A message with these properties, by tag and type (MS-OXMSG). */
  async function read(properties: Record<string, Buffer>) {
    const streams = Object.entries(properties).map(([tag, bytes]) => [`__substg1.0_${tag}`, bytes]);
    const empty = { '__properties_version1.0': Buffer.alloc(32) };
    return parseMsg(file(compoundFile({ ...empty, ...Object.fromEntries(streams) })));
  }

  it('converts the message like an .eml file, lists the fields of a contact, and rejects S/MIME', async () => {
    const message = await read({
      '0037001F': utf16('Preise'),
      '0C1A001F': utf16('Ann Lee'),
      '0C1F001F': utf16('ann@example.org'),
      '10130102': Buffer.from('<html><meta charset="windows-1252"><p>Gr\xfc\xdfe</p></html>', 'latin1'),
      '1000001F': utf16('plain'),
    });
    const body = '# Preise\n\nFrom: Ann Lee <ann@example.org>\n\nGrüße';
    expect(message).include({ body, title: 'Preise' });
    const contact = await read({
      '001A001F': utf16('IPM.Contact'),
      '0037001E': iconv.encode('王小明', 'big5'),
      '1000001E': iconv.encode('每位員工每年有三十天的假期。申請應在開始前兩週提交給主管。', 'big5'),
      '0C1F001F': utf16('/o=Example/ou=Mail/cn=ann'),
      '5D01001F': utf16('ann@example.org'),
      '3A08001F': utf16('+886 2 1234'),
      '3A15001F': utf16('1 Main Street'),
    });
    expect(contact.body).equal(
      '# 王小明\n\nFrom: ann@example.org\nBusiness phone: +886 2 1234\nAddress: 1 Main Street\n\n' +
        '每位員工每年有三十天的假期。申請應在開始前兩週提交給主管。',
    );
    const locked = read({ '001A001F': utf16('IPM.Note.SMIME'), '0037001F': utf16('Secret') });
    expect(await appErrorCode(locked)).equal('encrypted_document');
  });
});
