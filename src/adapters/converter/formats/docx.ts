import { appError } from '#src/errors.ts';
import { addBlocks, distinct, renderBlocks, type TextBlock } from '../office/blocks.ts';
import { readDrawingParts } from '../office/drawing-parts.ts';
import {
  mainPartName,
  openZipParts,
  packageTitle,
  readRelationships,
  readXmlPart,
  type ZipParts,
} from '../office/package-parts.ts';
import { childrenNamed, elementsOf, type XmlElement } from '../office/xml.ts';
import type { DocumentParser } from '../parsed-document.ts';
import { createNumbering, readStyles } from './docx-styles.ts';
import { countsPages, type DocxReferences, readBlock, readBlocks } from './docx-text.ts';

/** Parts that hold notes, by the kind of the relationship, with the name of one note. */
const noteParts: Record<string, string> = { footnotes: 'footnote', endnotes: 'endnote', comments: 'comment' };

/** Word: headers, the text with its notes and comments, footers; of pictures their alternative texts. */
export const parseDocx: DocumentParser = async ({ bytes }) => {
  const parts = await openZipParts(bytes);
  const name = await mainPartName(parts, 'word/document.xml');
  const related = await readRelationships(parts, name);
  const partOf = (kind: string) => related.find(({ type }) => type === kind)?.target ?? '';
  let marks = 0;
  const shared = {
    styles: readStyles(await readXmlPart(parts, partOf('styles'))),
    nextNumber: createNumbering(await readXmlPart(parts, partOf('numbering'))),
    notes: await readNotes(parts, related),
    nextMark: () => String(++marks),
  };
  const running = async (kind: string) => {
    const found: TextBlock[] = [];
    for (const { target } of related.filter(({ type }) => type === kind)) {
      const part = await readXmlPart(parts, target);
      const references = await referencesOf(parts, target, shared);
      const lines = elementsOf(part).filter((element) => !countsPages(element));
      addBlocks(found, readBlocks({ name: kind, attributes: {}, children: lines }, references));
    }
    return distinct(found);
  };
  const references = await referencesOf(parts, name, shared);
  const body: TextBlock[] = [];
  // A long text would not be in memory whole beside all that its XML says about it.
  const take = (element: XmlElement) => addBlocks(body, readBlock(element, references));
  const root = await readXmlPart(parts, name, { childrenOf: 'w:body', take });
  if (!root) throw appError('corrupt_document', { detail: 'The file lacks the part that holds its text.' });
  const blocks = [...(await running('header')), ...body, ...(await running('footer'))];
  return { body: renderBlocks(blocks), title: await packageTitle(parts) };
};

async function referencesOf(
  parts: ZipParts,
  partName: string,
  shared: Omit<DocxReferences, 'drawings' | 'links'>,
): Promise<DocxReferences> {
  const related = await readRelationships(parts, partName);
  const links = new Map(related.filter(({ isExternal }) => isExternal).map(({ id, target }) => [id, target]));
  return { ...shared, links, drawings: await readDrawingParts(parts, partName) };
}

async function readNotes(
  parts: ZipParts,
  related: { type: string; target: string }[],
): Promise<Map<string, XmlElement>> {
  const notes = new Map<string, XmlElement>();
  for (const { type, target } of related) {
    const kind = Object.hasOwn(noteParts, type) ? noteParts[type] : undefined;
    if (!kind) continue;
    for (const note of childrenNamed(await readXmlPart(parts, target), `w:${kind}`)) {
      notes.set(`${kind} ${note.attributes['w:id']}`, note);
    }
  }
  return notes;
}
