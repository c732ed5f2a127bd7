import { readFileSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { utils, write } from '@e965/xlsx';
import { expect } from 'chai';
import {
  detectArchiveFormat,
  detectCompoundFileFormat,
  detectFormat,
  listCompoundFileEntries,
} from '#src/adapters/converter/detect-format.ts';
import { detectTextFormat } from '#src/domain/documents/formats.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { compoundFile } from '#test/support/document-fixtures.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';

describe('the format of a text file', () => {
  const lines = readFileSync(new URL('cases/text-formats.txt', import.meta.url), 'utf8').split('\n');
  for (const line of lines.filter((each) => each !== '' && !each.startsWith('#'))) {
    const [fileName = '', written = '', format, declaredMediaType] = line.split(' | ');
    const declared = declaredMediaType ? ` of the declared type ${declaredMediaType}` : '';
    it(`is ${format} for a file ${fileName}${declared} that begins with: ${written}`, () => {
      const head = written.replaceAll('\\n', '\n').replaceAll('\\t', '\t');
      const detected = detectTextFormat({ fileName, head, ...(declaredMediaType && { declaredMediaType }) });
      expect(detected ?? 'none').equal(format);
    });
  }

  it('is detected quickly behind thousands of comments', () => {
    expect(detectTextFormat({ fileName: 'a.txt', head: '<!-- -->'.repeat(8_000) })).equal('text');
  });
});

describe('the format of an archive', () => {
  it('is recognized as EPUB by its other entries if the media type is not the first entry', () => {
    expect(detectArchiveFormat(['META-INF/container.xml', 'OPS/book.opf', 'mimetype'])).equal('epub');
    expect(detectArchiveFormat(['META-INF/container.xml', 'score.xml'])).equal(undefined);
  });
});

describe('a binary file', () => {
  const pathOf = useTemporaryFolder();
  const detect = async (start: string, fileName = 'file') => {
    await writeFile(pathOf('file'), Buffer.from(`${start}\0\x01`, 'latin1'));
    return detectFormat({ path: pathOf('file'), fileName }, { archiveEntries: 10 });
  };

  it('that cannot be read is named in the error, which says what its user can do', async () => {
    for (const [start, name] of [
      [
        '\0\0\0\x18ftypheic\0\0\0\0mif1heic',
        /^The file is an image \(\.heic\), .+ Save it as JPEG or PNG, and upload that\.$/,
      ],
      ['\xffWPC\x10\0', /WordPerfect document, .+ Save it as \.docx/],
      ['\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d', /OneNote section/],
      ['AT&TFORM\0', /DjVu file/],
      ['HWP Document File V3.00', /Hangul document/],
      ["7z\xbc\xaf'\x1c\0\x04", /an archive \(\.7z\), .+ Pack its files as \.zip/],
      ['Rar!\x1a\x07\x01\0', /an archive \(\.rar\), .+ Pack its files as \.zip/],
      [`${'\0'.repeat(60)}BOOKMOBI`, /an e-book of Kindle, .+ Convert it to \.epub/],
      ['%!PS-Adobe-3.0 EPSF-3.0', /a PostScript file, .+ Convert it to PDF/],
      ['\0\0\x02\0\x06\x04\x06\0', /a Lotus 1-2-3 worksheet, .+ Save it as \.xlsx/],
      ['\xff\0\x02\0\x04\x04\x05\x54', /a Works spreadsheet, .+ Save it as \.xlsx/],
      ['\x31\xbe\0\0\0\xab', /a Write document, .+ Save it as \.docx/],
      ['\x01\x02\x03', /of an unknown kind, .+ What can be read: text/],
    ] as const) {
      expect((await detect(start).catch((error) => error)).message).match(name);
    }
  });

  it('is text in UTF-16 without a byte order mark, in every script', async () => {
    const text = Buffer.from('Музей открылся в пятницу.\n今日は 休館日です。\n'.repeat(30), 'utf16le');
    for (const bytes of [text, Buffer.from(text).swap16()])
      expect(await detect(bytes.toString('latin1'))).equal('text');
    expect(await detect('\x01\0\x02\0 \0\x03\0'.repeat(9)).catch(({ code }) => code)).equal('unsupported_format');
  });

  it('is a workbook if Excel 2 has saved it', async () => {
    expect(
      await detect(write(utils.book_new(utils.aoa_to_sheet([['Fee', 2]])), { bookType: 'biff2', type: 'binary' })),
    ).equal('xls');
  });
});

describe('the format of an Office compound file', () => {
  const pathOf = useTemporaryFolder();

  async function rootOf(content: Buffer): Promise<string[]> {
    await writeFile(pathOf('file'), content);
    const file = await open(pathOf('file'));
    return listCompoundFileEntries(file).finally(() => file.close());
  }

  it('depends on the streams at its root, not on those of embedded files', async () => {
    for (const [streams, format] of [
      [['WordDocument', 'ObjectPool/_1/Workbook', '1Table'], 'doc'],
      [['Workbook'], 'xls'],
      [['Book'], 'xls'],
      [['PowerPoint Document'], 'ppt'],
      [['__properties_version1.0'], 'msg'],
      [['EncryptedPackage'], 'protected'],
      [['PowerPoint Document', 'EncryptedSummary'], 'protected'],
      [['Thumbs'], { name: 'an old Office file of an unknown kind' }],
    ] as const) {
      const file = compoundFile(Object.fromEntries(streams.map((name) => [name, 'x'])));
      expect(detectCompoundFileFormat(await rootOf(file)), streams.join()).eql(format);
    }
  });

  it('is detected even if the header does not list the part of a large file where its directory lies', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `stream ${index}`);
    const large = compoundFile(Object.fromEntries(names.map((name) => [name, Buffer.alloc(256 * 1024)])));
    expect(await rootOf(large)).include.members(names);
  });

  it('is reported as corrupt_document if the directory is truncated, out of bounds or cyclic', async () => {
    const whole = compoundFile({ WordDocument: Buffer.alloc(10_000) });
    const [directory, table] = [whole.readUInt32LE(48), whole.readUInt32LE(76)];
    const written = (value: number, offset: number) => {
      const copy = Buffer.from(whole);
      copy.writeUInt32LE(value, offset);
      return copy;
    };
    const circle = written(directory, (table + 1) * 512 + directory * 4);
    for (const damaged of [whole.subarray(0, 600), circle, written(0xfffffff0, 48), written(directory, 68)]) {
      expect(await appErrorCode(rootOf(damaged))).equal('corrupt_document');
    }
  });
});
