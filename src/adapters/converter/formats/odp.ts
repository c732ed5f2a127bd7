import { addBlocks, remark, renderBlocks, type TextBlock } from '../office/blocks.ts';
import { readOdfPackage } from '../office/odf-package.ts';
import { readOdfStyles } from '../office/odf-styles.ts';
import { type OdfReferences, readOdfBlocks } from '../office/odf-text.ts';
import { childAt, childrenNamed, elementsOf, type XmlElement } from '../office/xml.ts';
import type { DocumentParser } from '../parsed-document.ts';

/** What every slide says: its number, the date, the footer. */
const runningClasses = /^(?:page-number|date-time|footer|header)$/;

/** OpenDocument presentation: a page for each slide, with its notes and comments; hidden slides say so. */
export const parseOdp: DocumentParser = async ({ bytes }) => {
  const document = await readOdfPackage(bytes);
  let marks = 0;
  const references = {
    styles: readOdfStyles(document),
    objects: document.objects,
    nextMark: () => String(++marks),
  };
  const slides = childrenNamed(childAt(document.content, 'office:body', 'office:presentation'), 'draw:page');
  const read = slides.map((slide) => readSlide(slide, references));
  const body = read.map(({ title, isHidden, blocks }, index) => {
    const text = `${title || `Slide ${index + 1}`}${isHidden ? ' (hidden slide)' : ''}`;
    return title || blocks.length > 0 ? renderBlocks([{ kind: 'heading', level: 2, text }, ...blocks]) : '';
  });
  return { body, title: document.title ?? (read[0]?.title || null) };
};

function readSlide(slide: XmlElement, references: OdfReferences) {
  let title = '';
  const blocks: TextBlock[] = [];
  for (const shape of elementsOf(slide)) {
    const { 'presentation:class': kind = '', 'presentation:placeholder': isPlaceholder } = shape.attributes;
    if (isPlaceholder === 'true' || runningClasses.test(kind)) continue;
    const content = readOdfBlocks({ name: '', attributes: {}, children: [shape] }, references);
    if (kind === 'title' && !title) title = oneLine(content);
    else addBlocks(blocks, content);
  }
  const isNotes = ({ attributes }: XmlElement) =>
    attributes['presentation:class'] === 'notes' && attributes['presentation:placeholder'] !== 'true';
  const frames = elementsOf(childAt(slide, 'presentation:notes')).filter(isNotes);
  const notes = frames.map((frame) => renderBlocks(readOdfBlocks(frame, references))).join('\n');
  if (notes.trim()) blocks.push(remark('Notes', notes.replace(/\n{2,}/g, '\n')));
  return { title, isHidden: references.styles.isHiddenPage(slide.attributes['draw:style-name']), blocks };
}

function oneLine(blocks: TextBlock[]): string {
  return renderBlocks(blocks.filter((block) => block.kind === 'paragraph')).replace(/\s+/g, ' ');
}
