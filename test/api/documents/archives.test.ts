import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { packTar } from 'modern-tar';
import { documentListSchema } from '#src/modules/documents/documents.schema.ts';
import { folderChildrenSchema } from '#src/modules/folders/folders.schema.ts';
import { aDocumentIn, aFolder, anUpload, readDocument, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { docxFile, docxParagraph, zipFile } from '#test/support/document-fixtures.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('an uploaded archive', () => {
  let own: Stack;
  let ada: Member;
  before(async () => {
    own = await startStack({ TIER_LIMITS: '{"free":{"documents":4}}' });
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
  });

  const ingestion = (id: string, generation = 1) => `ingest-${id}-${generation}`;
  const upload = (name: string, content: Buffer, fields: Record<string, string> = {}) =>
    anUpload(ada, { name, content: new Uint8Array(content) }, fields);

  async function listDocuments() {
    const { items } = documentListSchema.parse((await ada.get('/documents', 200)).body);
    return items.sort((a, b) => a.name.localeCompare(b.name));
  }

  it('becomes a document for each file, in folders below its own, and its job and text name the skipped files', async () => {
    const target = await aFolder(ada, await rootOf(ada, 'personal_root'), 'Handbooks');
    const files = zipFile({
      'fees/2024/fees.docx': docxFile(docxParagraph('The fee is one percent.')),
      'fees/notes.txt': 'Ask Ann about the fee.',
      'fees/older.zip': zipFile({ 'a.txt': 'x' }),
      '__MACOSX/fees/._notes.txt': 'x',
    });
    const archive = await upload('handbooks.zip', files, { target_folder_id: target.id, target_tokens: '90' });
    const { last_error } = await untilJob(ada, ingestion(archive.id), 'succeeded');
    expect(last_error?.code).equal('files_skipped');
    expect(last_error?.message).match(/^2 of 4 files were not imported: .*fees\/older\.zip \(it is an archive inside/);

    const [docx, zip, notes] = await listDocuments();
    expect(docx).include({ name: 'fees.docx', import_source_provider: 'archive' });
    expect(docx).include({ import_source_url: 'archive:/fees/2024/fees.docx' });
    expect(zip).include({ id: archive.id, source_format: 'archive' });
    expect((await readDocument(ada, archive.id)).content).contain('- fees/notes.txt (22 bytes)\n');
    for (const [id = '', path, content] of [
      [docx?.id, ['fees', '2024'], 'The fee is one percent.'],
      [notes?.id, ['fees'], 'Ask Ann about the fee.'],
    ] as const) {
      await untilRun(ada, ingestion(id), 'succeeded');
      const document = await readDocument(ada, id);
      expect(document.content).equal(content);
      const { config } = Object((await ada.get(`/rag/config/${id}`, 200)).body);
      expect(config.chunking).include({ target_tokens: 90 });
      let folder: string = target.id;
      for (const name of path) {
        const { folders } = folderChildrenSchema.parse((await ada.get(`/folders/${folder}`, 200)).body);
        folder = folders.find((each) => each.name === name)?.id ?? 'none';
      }
      expect(document.folder_ids).deep.equal([folder]);
    }

    // Ingesting again imports no file that the user has deleted, except with `redo`.
    await ada.delete(`/documents/${notes?.id}`, 204);
    await untilJob(ada, `delete-${notes?.id}`, 'succeeded');
    await ada.patch(`/documents/${archive.id}`, { target_tokens: 100, ingest: true }, 200);
    await untilRun(ada, ingestion(archive.id, 2), 'succeeded');
    const names = async () => (await listDocuments()).map(({ name }) => name);
    expect(await names()).deep.equal(['fees.docx', 'handbooks.zip']);
    await ada.post(`/rag/ingest/${archive.id}`, { redo: true }, 200);
    await untilRun(ada, ingestion(archive.id, 3), 'succeeded');
    expect(await names()).deep.equal(['fees.docx', 'handbooks.zip', 'notes.txt']);
  });

  it('of tar.gz skips links, and is not opened inside of another archive', async () => {
    const text = (name: string, body: string | Uint8Array) => ({
      header: { name, size: Buffer.from(body).length, type: 'file' as const },
      body: Buffer.from(body),
    });
    const tar = await packTar([
      text('./a/plan.md', '# Plan'),
      { header: { name: 'a/link.md', size: 0, type: 'symlink', linkname: '/etc/passwd' } },
      text('../../out.txt', 'out'),
      text('empty.md', ''),
      text('a/hidden.bin', zipFile({ 'x.txt': 'x' })),
    ]);
    const { id } = await upload('backup.tgz', gzipSync(tar));
    const { last_error } = await untilJob(ada, ingestion(id), 'succeeded');
    expect(last_error?.message).match(
      /^3 of 5 .* a\/link\.md \(it is a link\); .*out\.txt \(its path leads out .*empty\.md \(it is empty\)\.$/,
    );
    const [, hidden, plan] = await listDocuments();
    await untilRun(ada, ingestion(plan?.id ?? ''), 'succeeded');
    const refused = await untilRun(ada, ingestion(hidden?.id ?? ''), 'failed');
    expect(refused.last_error).include({ code: 'unsupported_format' });
  });

  it('fails at the limits of the tier, and continues after the imported files when its job is retried', async () => {
    const other = await aDocumentIn(ada, await rootOf(ada, 'personal_root'));
    const files = Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [`${name}.txt`, `Text ${name}.`]));
    const { id } = await upload('files.zip', zipFile(files));
    const { last_error } = await untilJob(ada, ingestion(id), 'failed');
    expect(last_error).include({ code: 'document_limit_reached' });
    await ada.delete(`/documents/${other}`, 204);
    await untilJob(ada, `delete-${other}`, 'succeeded');
    await ada.post(`/jobs/${ingestion(id)}/retry`, undefined, 202);
    await untilJob(ada, ingestion(id), 'failed');
    const names = (await listDocuments()).map(({ name }) => name);
    expect(names).deep.equal(['a.txt', 'b.txt', 'c.txt', 'files.zip']);
  });
});
