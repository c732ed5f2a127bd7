import { expect } from 'chai';
import type { OcrPage } from '#src/ports/documents.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  type ConverterEnvironment,
  createConverterEnvironment,
  needsPdfium,
  realDocuments,
} from '#test/support/converter-environment.ts';
import { type Picture, pdfFile } from '#test/support/document-fixtures.ts';
import {
  onWholePage,
  pdfOfLines,
  pngFile,
  scanOf,
  textLines,
  tiffFile,
  turnRight,
} from '#test/support/picture-fixtures.ts';

describe('OCR', () => {
  let environment: ConverterEnvironment;
  let scan: Picture;
  const blank: Picture = { width: 400, height: 300, grey: Buffer.alloc(400 * 300, 255) };

  before(async function () {
    needsPdfium(this);
    environment = await createConverterEnvironment();
    const path = await environment.write(
      'drawn.pdf',
      pdfOfLines('The harbour master keeps the keys of the lighthouse.', 'Nobody else may open the northern gate.'),
    );
    scan = await scanOf(environment.folder, path);
  });
  after(() => environment?.remove());

  it('reads an image, also a rotated one', async () => {
    const upright = await environment.convert('scan.png', pngFile(scan));
    expect(upright).include({ sourceFormat: 'image', pageCount: 1, pagesLeft: 0 });
    expect(upright.body).contain('The harbour master keeps the keys of the lighthouse.');
    const turned = await environment.convert('turned.png', pngFile(turnRight(scan)));
    expect(turned.body).equal(upright.body);
  });

  it('reads each page of a TIFF', async () => {
    const { body, pageMap } = await environment.convert('fax.tif', tiffFile([scan, blank, scan]));
    expect(body.match(/northern gate/g)).length(2);
    expect(pageMap).length(3);
    expect(body.slice(pageMap?.[2])).match(/^The harbour/);
  });

  it('reads only the PDF pages that are pictures', async () => {
    const stamped = [onWholePage(scan), { text: 'Scanned by a program', x: 50, y: 20 }];
    const pdf = pdfFile([textLines('Qwx jvk zzyq, as no engine would read it.'), stamped, []]);
    const { body, pageMap, pageCount } = await environment.convert('mixed.pdf', pdf);
    expect(pageCount).equal(3);
    expect(body.slice(0, pageMap?.[1])).contain('Qwx jvk zzyq, as no engine would read it.');
    expect(body.slice(pageMap?.[1], pageMap?.[2])).contain('Nobody else may open the northern gate.');
  });

  it('continues after the last slice and reads no page twice', async () => {
    const path = await environment.write('scan.pdf', pdfFile([[blank], [scan]]));
    const kept: OcrPage[] = [];
    const left: number[] = [];
    for (;;) {
      const { body, pagesLeft } = await environment.converter.convert({
        ...{ orgId: 'any', path, fileName: 'scan.pdf', format: 'pdf', signal: new AbortController().signal },
        recognition: { known: [...kept], sliceMs: 0, keep: async (page) => void kept.push(page) },
      });
      left.push(pagesLeft);
      if (pagesLeft > 0) continue;
      expect(body).contain('lighthouse');
      break;
    }
    expect(left).eql([1, 0]);
    expect(kept.map(({ pageIndex }) => pageIndex)).eql([0, 1]);
  });

  it('ends when all pages of an image are known, with or without words', async () => {
    const convert = async (fileName: string, content: Buffer, known: OcrPage[]) => {
      const path = await environment.write(fileName, content);
      return environment.converter.convert({
        ...{ orgId: 'any', path, fileName, format: 'image', signal: new AbortController().signal },
        recognition: { known, sliceMs: 0, keep: () => Promise.reject(new Error('It was read again.')) },
      });
    };
    const words: OcrPage['lines'] = [['a lighthouse', 50, 300, 700, 12, false, 0]];
    expect(await appErrorCode(convert('a.png', pngFile(blank), [{ pageIndex: 0, lines: [] }]))).equal('empty_document');
    const pages = [0, 1].map((pageIndex) => ({ pageIndex, lines: words }));
    const fax = await convert('b.tif', tiffFile([blank, blank]), pages);
    expect(fax).include({ pagesLeft: 0, pageCount: 2, body: 'a lighthouse\n\na lighthouse' });
  });

  it('stops when the signal aborts and when a page cannot be stored', async () => {
    const path = await environment.write('scan.pdf', pdfFile([[blank], [scan]]));
    const stop = new AbortController();
    const reason = new Error('a newer upload');
    const convert = (keep: () => Promise<void>, { signal } = new AbortController()) =>
      environment.converter
        .convert({
          orgId: 'any',
          path,
          fileName: 'a.pdf',
          format: 'pdf',
          signal,
          recognition: { known: [], sliceMs: 60_000, keep },
        })
        .catch((error: unknown) => error);
    expect(await convert(async () => stop.abort(reason), stop)).equal(reason);
    expect(await convert(() => Promise.reject(reason))).equal(reason);
  });

  it('reads no pictures when the caller cannot store recognized pages', async () => {
    const convert = async (fileName: string, content: Buffer) => {
      const path = await environment.write(fileName, content);
      const format = await environment.converter.detect({ path, fileName });
      return environment.converter.convert({
        orgId: 'any',
        path,
        fileName,
        format,
        signal: new AbortController().signal,
      });
    };
    expect(await appErrorCode(convert('a.png', pngFile(scan)))).equal('unsupported_format');
    expect(await appErrorCode(convert('a.pdf', pdfFile([[scan]])))).equal('unsupported_format');
    expect((await convert('b.pdf', pdfFile([textLines('words on a page'), [scan]]))).body).equal('words on a page');
  });

  it('rejects pictures without words, with too many pages or pixels, and damaged ones', async () => {
    const codeOf = (...file: Parameters<ConverterEnvironment['convert']>) => appErrorCode(environment.convert(...file));
    expect(await codeOf('a.png', pngFile(blank))).equal('empty_document');
    expect(await codeOf('b.pdf', pdfFile([[blank]]))).equal('empty_document');
    expect(await codeOf('c.pdf', pdfFile([[blank], [blank]]), { ocrPages: 1 })).equal('too_large');
    expect(await codeOf('d.tif', tiffFile([blank, blank]), { ocrPages: 1 })).equal('too_large');
    expect(await codeOf('e.png', pngFile(blank), { imagePixels: 100_000 })).equal('too_large');
    expect(await codeOf('f.tif', tiffFile([blank], 7))).equal('unsupported_format');
    expect(await codeOf('g.png', pngFile(scan).subarray(0, 2_000))).equal('corrupt_document');
    expect(await codeOf('h.png', pngFile(scan), { wallMs: 20 })).equal('conversion_timeout');
  });

  it('recognizes the sentences on real scans', async function () {
    const folder = realDocuments(this);
    const { body } = await environment.convertPath(`${folder}/test_llm.jpg`);
    expect(body).contain('5bda1dd6');
    const path = `${folder}/MEDRPT-2024-PAT-3847_medical_report_scan.pdf`;
    const first: string[] = [];
    await environment.converter.convert({
      ...{ orgId: 'any', path, fileName: 'report.pdf', format: 'pdf', signal: new AbortController().signal },
      recognition: {
        known: [],
        sliceMs: 0,
        keep: async ({ lines }) => void first.push(...lines.map(([text]) => text)),
      },
    });
    expect(first).include.members([
      'Oxygen Saturation 97% 95-100% NORMAL',
      '6 weeks, rated 6-7/10 in severity. Associated symptoms include occasional dizziness,',
      '2. Metformin 500mg - twice daily for diabetes',
    ]);
  });
});
