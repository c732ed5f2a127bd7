import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { findLibreOffice } from '#src/adapters/pdf-renderer/libreoffice.ts';
import { previewWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { anUpload, readDocument } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { needsPdfium, realDocuments } from '#test/support/converter-environment.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { skip } from '#test/support/skip.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';

/** File, a text of one of its chunks, and the page of that chunk. */
const files: [file: string, text: string, page: number][] = [
  ['test.pdf', 'There are at least three reasons confirming its general feasibility', 1],
  ['test.docx', '| 7 | 8 | 9 | 10 | 11 | 12 |', 2],
  ['test.pptx', '| 1 | 2 | 3 | 4 | 5 | 6 |', 3],
  ['fake-power-point.ppt', 'Adding a Bullet Slide', 1],
  ['test.xlsx', '| Alpha | Beta | Gamma | Delta |', 1],
];

describe('real documents, from upload to chunks and preview:', () => {
  const program = findLibreOffice();
  let own: Stack;
  let ada: Member;
  let uploads: Map<string, Promise<string>>;

  before(async function () {
    const folder = realDocuments(this);
    own = await startStack(program === null ? {} : { LIBREOFFICE_PATH: program });
    ada = await own.signUp();
    const start = sideBySide(2);
    const upload = async (name: string) =>
      (await anUpload(ada, { name, content: new Uint8Array(await readFile(join(folder, name))) })).id;
    uploads = new Map(files.map(([file]) => [file, start(() => upload(file))]));
  });
  after(async () => {
    await Promise.allSettled(uploads?.values() ?? []);
    await own?.close();
  });

  for (const [file, text, page] of files) {
    it(`${file} has the expected text on page ${page}`, async function () {
      needsPdfium(this);
      const id = (await uploads.get(file)) ?? expect.fail();
      const isOffice = !file.endsWith('.pdf');
      if (isOffice && program === null) skip(this, 'no LibreOffice');
      await untilJob(ada, `ingest-${id}-1`, 'succeeded');
      if (isOffice) await untilJob(ada, previewWorkflowId(id, 1), 'succeeded');

      expect(await readDocument(ada, id)).include({ has_preview_pdf: isOffice });
      const { items } = chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body);
      const [chunk, ...others] = items.filter(({ content }) => content.includes(text));
      expect(others).deep.equal([]);
      expect((await ada.get(`/documents/chunks/${chunk?.id}`, 200)).body).include({ page_number: page });
      if (isOffice) expect((await ada.get(`/documents/${id}/preview`, 200)).body).match(/^%PDF-/);
    });
  }
});
