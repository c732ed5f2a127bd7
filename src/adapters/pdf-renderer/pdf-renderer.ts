import type { PdfRenderer } from '#src/ports/documents.ts';
import type { ParserSandbox } from '../parser-sandbox.ts';
import { createGotenberg } from './gotenberg.ts';
import { createLibreOffice, findLibreOffice } from './libreoffice.ts';

/** Null if no renderer is configured or installed. A LibreOffice `path` of null searches the usual folders. */
export function createPdfRenderer(
  choice: { kind: 'gotenberg'; url: string } | { kind: 'libreoffice'; path: string | null } | { kind: 'off' },
  { sandbox, tempDir }: { sandbox: ParserSandbox; tempDir: string },
): PdfRenderer | null {
  if (choice.kind === 'off') return null;
  if (choice.kind === 'gotenberg') return createGotenberg(choice);
  const path = choice.path ?? findLibreOffice();
  return path === null ? null : createLibreOffice({ path, sandbox, tempDir });
}
