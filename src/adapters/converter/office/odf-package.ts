import { posix } from 'node:path';
import { appError } from '#src/errors.ts';
import { statedTitle } from '../parsed-document.ts';
import { openZipParts, readXmlPart, type ZipParts } from './package-parts.ts';
import { childAt, descendants, textOf, type XmlElement } from './xml.ts';

/** The parts of an OpenDocument file that its text is read from. */
export type OdfPackage = {
  /** `office:document-content`. */
  content: XmlElement;
  /** `office:document-styles`: styles that have names, and the layout of pages. */
  styles: XmlElement | undefined;
  /** Equations and charts by the address that a frame gives: `office:document-content` or `math:math`. */
  objects: ReadonlyMap<string, XmlElement>;
  title: string | null;
};

/** @throws AppError encrypted_document, corrupt_document */
export async function readOdfPackage(bytes: Buffer): Promise<OdfPackage> {
  const parts = await openZipParts(bytes);
  await checkEncryption(parts);
  const content = await readXmlPart(parts, 'content.xml');
  if (!content) throw appError('corrupt_document', { detail: 'The file lacks the part that holds its text.' });
  const objects = new Map<string, XmlElement>();
  for (const { attributes } of descendants(content, 'draw:object')) {
    const address = attributes['xlink:href'] ?? '';
    const object = await readXmlPart(parts, posix.join(address, 'content.xml'));
    if (object) objects.set(address, object);
  }
  const meta = await readXmlPart(parts, 'meta.xml');
  const title = statedTitle(textOf(childAt(meta, 'office:meta', 'dc:title')));
  return { content, styles: await readXmlPart(parts, 'styles.xml'), objects, title };
}

/** Either single parts are encrypted, as the manifest tells, or all of them inside of one. */
async function checkEncryption(parts: ZipParts): Promise<void> {
  const manifest = await readXmlPart(parts, 'META-INF/manifest.xml');
  if (parts.names.includes('encrypted-package') || descendants(manifest, 'manifest:encryption-data').length > 0) {
    throw appError('encrypted_document', {
      detail: 'The file opens only with a password; upload it without the password.',
    });
  }
}
