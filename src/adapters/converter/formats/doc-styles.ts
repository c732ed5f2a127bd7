import type { CountedList, ListLevel } from '../office/list-numbers.ts';
import type { DocFile } from './doc-file.ts';
import { codes, numberOf, type Properties, readProperties } from './doc-properties.ts';

export type DocStyle = { headingLevel: number | null; properties: Properties; isHidden: boolean };

/** Numbers that built-in styles have in every language; 1 to 9 are the headings. */
const titleStyle = 62;
const subtitleStyle = 74;
const paragraphKind = 1;
const characterKind = 2;
const noStyle = 0xfff;
/** A chain of styles that is longer goes in a circle. */
const longestChain = 20;

type WrittenStyle = {
  number: number;
  base: number;
  /** Of paragraphs. */
  properties: Properties;
  /** Undefined when the style says nothing about it. */
  isHidden: boolean | undefined;
};

/** The styles of paragraphs and words by their ids, with what they have from the styles that they are based on. */
export function readDocStyles({ table }: DocFile): (styleId: number) => DocStyle {
  const bytes = table('styles');
  const headerLength = bytes.readUInt16LE(0);
  const count = bytes.readUInt16LE(2);
  const baseLength = bytes.readUInt16LE(4);
  const styles: (WrittenStyle | null)[] = [];
  let at = 2 + headerLength;
  for (let index = 0; index < count && at + 2 <= bytes.length; index += 1) {
    const length = bytes.readUInt16LE(at);
    styles.push(length === 0 ? null : readStyle(bytes.subarray(at + 2, at + 2 + length), baseLength));
    at += 2 + length;
  }
  const known = new Map<number, DocStyle>();
  return (styleId) => {
    const before = known.get(styleId);
    if (before) return before;
    const chain: WrittenStyle[] = [];
    let style = styles[styleId];
    while (style && chain.length < longestChain) {
      chain.unshift(style);
      style = style.base === noStyle ? null : styles[style.base];
    }
    const level = chain.map(({ number }) => levelOf(number)).findLast((each) => each !== null);
    const found = {
      headingLevel: level ?? null,
      properties: new Map(chain.flatMap(({ properties }) => [...properties])),
      isHidden: chain.findLast((each) => each.isHidden !== undefined)?.isHidden ?? false,
    };
    known.set(styleId, found);
    return found;
  };
}

function readStyle(bytes: Buffer, baseLength: number): WrittenStyle {
  const number = bytes.readUInt16LE(0) & 0xfff;
  const kind = bytes.readUInt16LE(2) & 0xf;
  const base = bytes.readUInt16LE(2) >> 4;
  const parts = propertiesOfStyle(bytes, baseLength);
  const ofParagraphs = kind === paragraphKind ? parts.shift() : undefined;
  const ofWords = kind === paragraphKind || kind === characterKind ? parts.shift() : undefined;
  const hidden = ofWords && numberOf(readProperties(ofWords), codes.isHidden);
  return {
    number,
    base,
    // The first two bytes are the id of the style itself.
    properties: ofParagraphs ? readProperties(ofParagraphs.subarray(2)) : new Map(),
    isHidden: hidden === undefined ? undefined : hidden === 1,
  };
}

/** Behind its name: those of paragraphs and of their words, or only of words. Each has its length before it, and is even. */
function propertiesOfStyle(bytes: Buffer, baseLength: number): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = baseLength + 4 + bytes.readUInt16LE(baseLength) * 2; at + 2 <= bytes.length; ) {
    const length = bytes.readUInt16LE(at);
    parts.push(bytes.subarray(at + 2, at + 2 + length));
    at += 2 + length + (length % 2);
  }
  return parts;
}

function levelOf(styleNumber: number): number | null {
  if (styleNumber >= 1 && styleNumber <= 9) return styleNumber;
  if (styleNumber === titleStyle) return 1;
  return styleNumber === subtitleStyle ? 2 : null;
}

const numberStyles: Record<number, ListLevel['style']> = {
  1: 'upperRoman',
  2: 'lowerRoman',
  3: 'upperLetter',
  4: 'lowerLetter',
  23: 'bullet',
  255: 'none',
};
const listBytes = 28;
const overrideBytes = 16;

/** The lists by the numbers that paragraphs name them by. Those of one kind go on counting together. */
export function readDocLists({ table, tableFrom }: DocFile): (number: number) => CountedList | undefined {
  const lists = new Map<number, CountedList>();
  const declared = table('lists');
  if (declared.length < 2) return () => undefined;
  const bytes = tableFrom('lists');
  const count = bytes.readUInt16LE(0);
  let at = declared.length;
  for (let index = 0; index < count; index += 1) {
    const list = 2 + index * listBytes;
    const levelCount = bytes.readUInt8(list + 26) & 1 ? 1 : 9;
    const levels = new Map<number, ListLevel>();
    for (let level = 0; level < levelCount; level += 1) {
      const propertyBytes = bytes.readUInt8(at + 24) + bytes.readUInt8(at + 25);
      const textAt = at + listBytes + propertyBytes;
      const textBytes = bytes.readUInt16LE(textAt) * 2;
      const label = bytes.toString('utf16le', textAt + 2, textAt + 2 + textBytes);
      levels.set(level, {
        start: bytes.readInt32LE(at),
        style: numberStyles[bytes.readUInt8(at + 4)] ?? 'decimal',
        // biome-ignore lint/suspicious/noControlCharactersInRegex: Word writes the level whose number stands there
        text: label.replace(/[\u0000-\u0008]/g, (digit) => `%${digit.charCodeAt(0) + 1}`),
      });
      at = textAt + 2 + textBytes;
    }
    lists.set(bytes.readUInt32LE(list), { levels, counts: [] });
  }
  const overrides = table('listOverrides');
  return (number) => {
    const place = 4 + (number - 1) * overrideBytes;
    return number > 0 && place + 4 <= overrides.length ? lists.get(overrides.readUInt32LE(place)) : undefined;
  };
}
