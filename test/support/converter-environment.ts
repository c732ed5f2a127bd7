import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Context } from 'mocha';
import type { ConversionProcessLimits } from '#src/adapters/converter/conversion-limits.ts';
import { createConverter } from '#src/adapters/converter/converter.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import type { DocumentConverter, OcrOptions } from '#src/ports/documents.ts';
import { skip } from './skip.ts';

/** A real converter over files that a test writes. */
type ConverterEnvironment = Awaited<ReturnType<typeof createConverterEnvironment>>;

const allPages: OcrOptions = { known: [], sliceMs: 60_000, keep: async () => undefined };
const sandbox = createParserSandbox('auto');
const toolsDir = process.env.TOOLS_DIR ?? '';

async function createConverterEnvironment() {
  const folder = await mkdtemp(join(tmpdir(), 'converter-test-'));
  const build = (limits: Partial<ConversionProcessLimits> = {}) =>
    createConverter({ sandbox, toolsDir, tempDir: folder, limits });
  const converter = build();
  const write = async (fileName: string, content: string | Buffer) => {
    const path = join(folder, fileName);
    await writeFile(path, content);
    return path;
  };
  const run = async (which: DocumentConverter, path: string, recognition: OcrOptions | null = allPages) => {
    const fileName = path.slice(path.lastIndexOf('/') + 1);
    const format = await which.detect({ path, fileName });
    const { signal } = new AbortController();
    return which.convert({ orgId: 'any', path, fileName, format, signal, ...(recognition && { recognition }) });
  };
  return {
    converter,
    folder,
    write,
    /** Writes the file, detects its format and converts it, as an ingestion does. */
    convert: async (fileName: string, content: string | Buffer, limits?: Partial<ConversionProcessLimits>) =>
      run(build(limits), await write(fileName, content)),
    /** Converts a file. OCR reads all pages at once, unless told otherwise; null is without OCR. */
    convertPath: (path: string, recognition?: OcrOptions | null) => run(converter, path, recognition),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** For a suite: a converter of its own. It is empty until `before` has run. */
export function useConverter(): ConverterEnvironment {
  const environment: Partial<ConverterEnvironment> = {};
  before(async () => {
    Object.assign(environment, await createConverterEnvironment());
  });
  after(() => environment.remove?.());
  return environment as ConverterEnvironment;
}

/** PDF tests need PDFium, which `npm test` installs; without it they are skipped. */
export function needsPdfium(test: Context): void {
  if (existsSync(join(toolsDir, 'pypdfium2'))) return;
  skip(test, 'no PDFium');
}

/** Real documents are not part of the repository. */
export function realDocuments(test: Context): string {
  const folder = resolve(process.env.DATASETS_DIR ?? '../shared/datasets', 'documents');
  if (!existsSync(folder)) skip(test, 'no data sets');
  return folder;
}
