import type { PdfRenderer } from '#src/ports/pdf-renderer.ts';
import { createGotenberg } from './gotenberg.ts';
import { createLibreOffice } from './libreoffice.ts';

/** What this deployment prints with; null where it has nothing. */
export function createPdfRenderer(deps: {
  gotenbergUrl: string | null;
  libreOfficePath: string | null;
  tempDir: string;
}): PdfRenderer | null {
  const { gotenbergUrl, libreOfficePath, tempDir } = deps;
  if (gotenbergUrl !== null) return createGotenberg({ url: gotenbergUrl });
  return libreOfficePath === null ? null : createLibreOffice({ path: libreOfficePath, tempDir });
}
