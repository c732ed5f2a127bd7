import { childAt, descendants, type XmlElement } from '../office/xml.ts';

/** Whether a paragraph of a shape is an item of a list, and of which kind. */
export type BulletRule = (paragraph: XmlElement, shape: XmlElement) => 'bullet' | 'number' | 'none';

/** The paragraph decides, else its shape, else the layout of the slide; the main text of a slide is a list by itself. */
export function createBulletRule(layout: XmlElement | undefined): BulletRule {
  const layoutShapes = descendants(layout, 'p:sp');
  return (paragraph, shape) => {
    const properties = childAt(paragraph, 'a:pPr');
    const level = `a:lvl${Number(properties?.attributes.lvl ?? 0) + 1}pPr`;
    const placeholder = placeholderOf(shape);
    const ofLayout = layoutShapes.find((each) => isSamePlaceholder(placeholderOf(each), placeholder));
    const sources = [properties, listStyle(shape, level), placeholder && listStyle(ofLayout, level)];
    for (const source of sources) {
      if (childAt(source, 'a:buNone')) return 'none';
      if (childAt(source, 'a:buAutoNum')) return 'number';
      if (childAt(source, 'a:buChar') || childAt(source, 'a:buBlip')) return 'bullet';
    }
    return placeholder && /^(?:body|obj|)$/.test(placeholder.attributes.type ?? '') ? 'bullet' : 'none';
  };
}

export function placeholderOf(shape: XmlElement | undefined): XmlElement | undefined {
  return childAt(shape, 'p:nvSpPr', 'p:nvPr', 'p:ph');
}

function listStyle(shape: XmlElement | undefined, level: string): XmlElement | undefined {
  return childAt(shape, 'p:txBody', 'a:lstStyle', level);
}

function isSamePlaceholder(one: XmlElement | undefined, other: XmlElement | undefined): boolean {
  if (!one || !other) return false;
  const isSameIndex = one.attributes.idx !== undefined && one.attributes.idx === other.attributes.idx;
  return isSameIndex || (one.attributes.type !== undefined && one.attributes.type === other.attributes.type);
}
