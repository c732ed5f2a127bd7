import { expect } from 'chai';
import { guessSourceFormat, mediaTypeOfFormat } from '#src/domain/documents/formats.ts';

describe('guessSourceFormat', () => {
  const cases: [string, string, string | null][] = [
    ['report.PDF', 'application/octet-stream', 'pdf'],
    ['report', 'application/pdf', 'pdf'],
    ['letter.docx', 'application/octet-stream', 'docx'],
    ['page.htm', 'application/octet-stream', 'html'],
    ['notes.md', 'text/plain', 'markdown'],
    ['main.py', 'application/octet-stream', 'code'],
    ['table.tsv', 'application/octet-stream', 'csv'],
    ['data', 'application/json; charset=utf-8', 'json'],
    ['readme', 'text/plain', 'text'],
    ['notes.constructor', 'text/plain', 'text'],
    ['photo.png', 'application/octet-stream', 'image'],
    ['photo', 'image/png', 'image'],
    ['sheet.xls', 'text/plain', 'xls'],
    ['sheet', 'application/vnd.ms-excel', 'xls'],
    ['film.mp4', 'video/mp4', null],
    ['anything', 'application/octet-stream', null],
  ];
  for (const [fileName, mediaType, format] of cases) {
    it(`guesses ${format ?? 'no format'} for ${fileName} (${mediaType})`, () => {
      expect(guessSourceFormat({ fileName, mediaType })).to.equal(format);
    });
  }

  it('downloads a known format with its media type, and others as octet-stream', () => {
    const types = ['pdf', 'code', 'image', 'unheard', null].map((format) => mediaTypeOfFormat(format, 'a.png'));
    expect(types).to.deep.equal([
      'application/pdf',
      'text/plain',
      'image/png',
      'application/octet-stream',
      'application/octet-stream',
    ]);
  });
});
