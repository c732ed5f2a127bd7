import { appError } from '#src/errors.ts';
import { remark, renderBlocks, type TextBlock } from '../office/blocks.ts';
import { readDrawingParts } from '../office/drawing-parts.ts';
import {
  mainPartName,
  openZipParts,
  packageTitle,
  type Relationship,
  readRelationships,
  readXmlPart,
  type ZipParts,
} from '../office/package-parts.ts';
import { childAt, childrenNamed, descendants, elementsOf, textOf, type XmlElement } from '../office/xml.ts';
import type { DocumentParser } from '../parsed-document.ts';
import { createBulletRule, isPlaceholder, readShapes } from './pptx-shapes.ts';

/** PowerPoint: a page for each slide in the order of the show, with its notes and comments; hidden slides say so. */
export const parsePptx: DocumentParser = async ({ bytes }) => {
  const parts = await openZipParts(bytes);
  const name = await mainPartName(parts, 'ppt/presentation.xml');
  const root = await readXmlPart(parts, name);
  if (!root) throw appError('corrupt_document', { detail: 'The file lacks the part that lists its slides.' });
  const targets = new Map((await readRelationships(parts, name)).map(({ id, target }) => [id, target]));
  const shown = childrenNamed(childAt(root, 'p:sldIdLst'), 'p:sldId').map((slide) => slide.attributes['r:id'] ?? '');
  const pages: string[] = [];
  const titles: string[] = [];
  // No slide is in a show twice: a file that says so would keep its reader busy for hours.
  for (const target of new Set(shown.map((id) => targets.get(id) ?? ''))) {
    const slide = await readXmlPart(parts, target);
    const { title, blocks } = slide ? await readSlide(parts, slide, target) : { title: '', blocks: [] };
    const hidden = slide?.attributes.show === '0' ? ' (hidden slide)' : '';
    const heading: TextBlock = { kind: 'heading', level: 2, text: (title || `Slide ${pages.length + 1}`) + hidden };
    pages.push(title || blocks.length > 0 ? renderBlocks([heading, ...blocks]) : '');
    titles.push(title);
  }
  return { body: pages, title: (await packageTitle(parts)) ?? (titles[0] || null) };
};

async function readSlide(parts: ZipParts, slide: XmlElement, partName: string) {
  const related = await readRelationships(parts, partName);
  const links = new Map(related.filter(({ isExternal }) => isExternal).map(({ id, target }) => [id, target]));
  const layout = await readXmlPart(parts, related.find(({ type }) => type === 'slideLayout')?.target ?? '');
  const drawings = await readDrawingParts(parts, partName);
  const tree = childAt(slide, 'p:cSld', 'p:spTree');
  const { title, blocks } = readShapes(tree, { links, drawings, hasBullet: createBulletRule(layout) });
  return { title, blocks: [...blocks, ...(await readRemarks(parts, related))] };
}

/** What the speaker has noted, and what others have said about the slide. */
async function readRemarks(parts: ZipParts, related: Relationship[]): Promise<TextBlock[]> {
  const remarks: TextBlock[] = [];
  for (const { type, target } of related) {
    if (type === 'notesSlide') {
      const shapes = descendants(await readXmlPart(parts, target), 'p:sp').filter((shape) =>
        isPlaceholder(shape, 'body'),
      );
      const notes = shapes.flatMap((shape) => descendants(shape, 'a:p').map(paragraphText)).join('\n');
      if (notes.trim()) remarks.push(remark('Notes', notes));
    }
    // Newer comments have another vocabulary, and their texts are those of shapes.
    if (type === 'comments') {
      const comments = elementsOf(await readXmlPart(parts, target)).filter(({ name }) => name.endsWith(':cm'));
      for (const comment of comments) {
        const text = textOf(childAt(comment, 'p:text')) || descendants(comment, 'a:p').map(paragraphText).join('\n');
        if (text.trim()) remarks.push(remark('Comment', text));
      }
    }
  }
  return remarks;
}

function paragraphText(element: XmlElement): string {
  return descendants(element, 'a:t').map(textOf).join('');
}
