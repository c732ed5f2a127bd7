import {
  appendTextBlocks,
  footnoteBlock,
  quotedCommentBlock,
  removeRepeatedTextBlocks,
  renderTextBlocksAsMarkdown,
  type TextBlock,
} from '../office/blocks.ts';
import { type ListLevel, type NumberedList, nextListLabel } from '../office/numbering.ts';
import { createOfficeTextBuilder, type OfficeParagraphState } from '../office/text-builder.ts';
import { type DocumentParser, discardDefaultTitle } from '../parsed-document.ts';
import {
  type DocFile,
  type DocFileTableName,
  type DocProperties,
  docPropertyAsNumber,
  docPropertyCodes,
  findDocFormattingRun,
  openDocFile,
  readDocFormattingRuns,
  readDocProperties,
  readDocTitle,
} from './doc-file.ts';

/** Reads Word 97 to 2003 files: headers, the text with notes and comments, text boxes, footers. */
export const parseDoc: DocumentParser = ({ bytes }) => {
  const file = openDocFile(bytes);
  const { lengths } = file;
  const noteStarts = {
    footnotes: lengths.text,
    headers: lengths.text + lengths.footnotes,
    comments: lengths.text + lengths.footnotes + lengths.headers + lengths.macros,
    endnotes: lengths.text + lengths.footnotes + lengths.headers + lengths.macros + lengths.comments,
  };
  const boxes = noteStarts.endnotes + lengths.endnotes;
  const readText = createTextReader(file);
  const asides = new Map<number, () => { mark: string; block: TextBlock }>();
  let noteCount = 0;
  for (const kind of ['footnotes', 'endnotes'] as const) {
    const references = kind === 'footnotes' ? 'footnoteReferences' : 'endnoteReferences';
    for (const { at, start, end } of readNotes(file, references, kind, noteStarts[kind])) {
      asides.set(at, () => {
        noteCount += 1;
        const text = renderTextBlocksAsMarkdown(readText(start, end));
        return { mark: `[^${noteCount}]`, block: footnoteBlock(String(noteCount), text) };
      });
    }
  }
  const authors = readAuthors(file.table('commentAuthors'));
  for (const { at, start, end, data } of readNotes(file, 'commentReferences', 'comments', noteStarts.comments)) {
    const author = data.length >= 22 ? authors[data.readUInt16LE(20)] : undefined;
    const name = author ? `Comment by ${author}` : 'Comment';
    asides.set(at, () => ({
      mark: '',
      block: quotedCommentBlock(name, renderTextBlocksAsMarkdown(readText(start, end))),
    }));
  }
  const { headers, footers } = readRunningTexts(file, noteStarts.headers, readText);
  const body = readText(0, lengths.text, asides);
  const blocks = [...headers, ...body, ...readText(boxes, boxes + lengths.boxes), ...footers];
  return {
    body: renderTextBlocksAsMarkdown(blocks),
    title: file.summary ? discardDefaultTitle(readDocTitle(file.summary)) : null,
  };
};

type Asides = ReadonlyMap<number, () => { mark: string; block: TextBlock }>;
type TextReader = (start: number, end: number, asides?: Asides) => TextBlock[];

const characters: Record<string, string> = { '\t': ' ', '\v': '\n', '\u001e': '-', '\u00a0': ' ' };

function createTextReader(file: DocFile): TextReader {
  const { text } = file;
  const paragraphs = readDocFormattingRuns(file, 'paragraphPages');
  const styleOf = readDocStyles(file);
  const listOf = readDocLists(file);
  const isHidden = findHidden(file, { paragraphs, styleOf });

  function propertiesAt(position: number): { properties: DocProperties; headingLevel: number | null } {
    const run = findDocFormattingRun(paragraphs, streamOffsetOf(file, position));
    const style = styleOf(run?.styleId ?? 0);
    const properties = new Map([...style.properties, ...(run?.properties ?? [])]);
    const outline = run && docPropertyAsNumber(run.properties, docPropertyCodes.outlineLevel);
    return { properties, headingLevel: outline !== undefined && outline < 9 ? outline + 1 : style.headingLevel };
  }

  return (start, end, asides = new Map()) => {
    const builder = createOfficeTextBuilder();
    const fields: { instruction: string; start: number; isShown: boolean }[] = [];

    const stateAt = (position: number): OfficeParagraphState & { properties: DocProperties } => {
      const { properties, headingLevel } = propertiesAt(position);
      const isInTable = docPropertyAsNumber(properties, docPropertyCodes.isInTable) === 1;
      return {
        headingLevel,
        isInTable,
        properties,
        listDepth: docPropertyAsNumber(properties, docPropertyCodes.listLevel) ?? 0,
      };
    };

    function labelParagraph({ properties, listDepth }: ReturnType<typeof stateAt>): void {
      const list = listOf(docPropertyAsNumber(properties, docPropertyCodes.list) ?? 0);
      if (list && !builder.isEmpty()) builder.setLabel(nextListLabel(list, listDepth) ?? '');
    }

    function endField(): void {
      const field = fields.pop();
      if (!field) return;
      if (/^\s*PAGE\b/i.test(field.instruction)) builder.markPageNumber();
      builder.linkFrom(field.start, /^\s*HYPERLINK\s+"([^"]+)"/i.exec(field.instruction)?.[1]);
    }

    for (let position = start; position < Math.min(end, text.length); position += 1) {
      const character = text.charAt(position);
      const aside = asides.get(position)?.();
      if (aside) {
        builder.append(aside.mark);
        builder.addAfter([aside.block]);
      } else if (character === '\r' || character === '\f') {
        const state = stateAt(position);
        if (docPropertyAsNumber(state.properties, docPropertyCodes.isInnerRowEnd) === 1) builder.endInnerRow();
        else if (docPropertyAsNumber(state.properties, docPropertyCodes.isInnerCell) === 1) builder.endInnerCell();
        else {
          labelParagraph(state);
          builder.endParagraph(state);
        }
      } else if (character === '\u0007') {
        const state = stateAt(position);
        if (docPropertyAsNumber(state.properties, docPropertyCodes.isRowEnd) === 1) {
          builder.beginRow();
          for (const cell of readCells(state.properties.get(docPropertyCodes.row))) builder.defineCell(cell);
          builder.endRow();
        } else {
          labelParagraph(state);
          builder.endCell(state);
        }
      } else if (character === '\u0013') fields.push({ instruction: '', start: builder.position(), isShown: false });
      else if (character === '\u0014') Object.assign(fields.at(-1) ?? {}, { isShown: true });
      else if (character === '\u0015') endField();
      else if (!isHidden(position)) {
        const shown = characters[character] ?? (character < ' ' ? '' : character);
        const field = fields.find(({ isShown }) => !isShown);
        if (field) field.instruction += shown;
        else builder.append(shown);
      }
    }
    builder.end({ headingLevel: null, listDepth: 0, isInTable: false });
    return builder.blocks;
  };
}

function streamOffsetOf({ pieces }: DocFile, position: number): number {
  let [low, high] = [0, pieces.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((pieces[middle]?.end ?? 0) <= position) low = middle + 1;
    else high = middle;
  }
  const piece = pieces[low];
  return piece ? piece.offset + (position - piece.start) * piece.bytesPerCharacter : -1;
}

type Formats = { paragraphs: ReturnType<typeof readDocFormattingRuns>; styleOf: ReturnType<typeof readDocStyles> };

/**
 * Special values of a toggle property (MS-DOC, 2.4.6.6): the property has the same value as in the styles, or the
 * opposite.
 */
const sameAsStyles = 0x80;
const oppositeOfStyles = 0x81;

function findHidden(file: DocFile, { paragraphs, styleOf }: Formats): (position: number) => boolean {
  const visibilityCodes = [docPropertyCodes.isHidden, docPropertyCodes.isDeleted, docPropertyCodes.characterStyle];
  const runs = readDocFormattingRuns(file, 'characterPages').filter(({ properties }) =>
    visibilityCodes.some((code) => properties.has(code)),
  );
  const hiddenParagraphs = paragraphs.filter(({ styleId }) => styleOf(styleId).isHidden);
  if (runs.length === 0 && hiddenParagraphs.length === 0) return () => false;

  return (position) => {
    const offset = streamOffsetOf(file, position);
    const properties: DocProperties = findDocFormattingRun(runs, offset)?.properties ?? new Map();
    if (docPropertyAsNumber(properties, docPropertyCodes.isDeleted) === 1) return true;
    const hidden = docPropertyAsNumber(properties, docPropertyCodes.isHidden) ?? sameAsStyles;
    if (hidden !== sameAsStyles && hidden !== oppositeOfStyles) return hidden === 1;
    const styleId = docPropertyAsNumber(properties, docPropertyCodes.characterStyle);
    // A hidden character style inverts the paragraph style's hidden flag, because `hidden` is a toggle property.
    const isOfParagraph = findDocFormattingRun(hiddenParagraphs, offset) !== undefined;
    const byStyles = isOfParagraph !== (styleId !== undefined && styleOf(styleId).isHidden);
    return hidden === oppositeOfStyles ? !byStyles : byStyles;
  };
}

function readCells(row: Buffer | undefined): { right: number; isContinued: boolean }[] {
  if (!row || row.length === 0) return [];
  const count = row.readUInt8(0);
  return Array.from({ length: count }, (_, index) => {
    const flagsAt = 1 + (count + 1) * 2 + index * 20;
    const flags = flagsAt + 2 <= row.length ? row.readUInt16LE(flagsAt) : 0;
    return { right: row.readInt16LE(3 + index * 2), isContinued: (flags & 0x20) !== 0 && (flags & 0x40) === 0 };
  });
}

function readNotes(file: DocFile, references: DocFileTableName, notes: DocFileTableName, base: number) {
  const positions = file.table(references);
  const texts = file.table(notes);
  const count = Math.max(0, texts.length / 4 - 2);
  const dataBytes = count === 0 ? 0 : (positions.length - 4) / count - 4;
  return Array.from({ length: count }, (_, index) => {
    const dataAt = (count + 1) * 4 + index * dataBytes;
    return {
      at: positions.readUInt32LE(index * 4),
      start: base + texts.readUInt32LE(index * 4),
      end: base + texts.readUInt32LE(index * 4 + 4),
      data: positions.subarray(dataAt, dataAt + dataBytes),
    };
  });
}

function readAuthors(table: Buffer): string[] {
  const authors: string[] = [];
  for (let at = 0; at + 2 <= table.length; ) {
    const end = at + 2 + table.readUInt16LE(at) * 2;
    authors.push(table.toString('utf16le', at + 2, end));
    at = end;
  }
  return authors;
}

/** The header table (PlcfHdd) starts with six note separators; each section then has three headers and footers. */
function readRunningTexts(file: DocFile, base: number, readText: TextReader) {
  const table = file.table('headers');
  const headers: TextBlock[] = [];
  const footers: TextBlock[] = [];
  for (let index = 6; index + 2 < table.length / 4; index += 1) {
    const [start, end] = [table.readUInt32LE(index * 4), table.readUInt32LE(index * 4 + 4)];
    const isFooter = [2, 3, 5].includes((index - 6) % 6);
    appendTextBlocks(isFooter ? footers : headers, readText(base + start, base + end));
  }
  return { headers: removeRepeatedTextBlocks(headers), footers: removeRepeatedTextBlocks(footers) };
}

type DocStyle = { headingLevel: number | null; properties: DocProperties; isHidden: boolean };

/** Built-in style numbers (sti) are the same in every language of Word; styles 1 to 9 are headings. */
const titleStyle = 62;
const subtitleStyle = 74;
const paragraphKind = 1;
const characterKind = 2;
const noStyle = 0xfff;
/** Maximum style inheritance depth; anything deeper is a cycle. */
const maxStyleDepth = 20;

type WrittenStyle = {
  number: number;
  base: number;
  properties: DocProperties;
  isHidden: boolean | undefined;
};

function readDocStyles({ table }: DocFile): (styleId: number) => DocStyle {
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
    while (style && chain.length < maxStyleDepth) {
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
  const hidden = ofWords && docPropertyAsNumber(readDocProperties(ofWords), docPropertyCodes.isHidden);
  return {
    number,
    base,
    // A paragraph style's properties begin with the style's own 2-byte id.
    properties: ofParagraphs ? readDocProperties(ofParagraphs.subarray(2)) : new Map(),
    isHidden: hidden === undefined ? undefined : hidden === 1,
  };
}

/** A style's property lists follow its name. Each list has a length prefix and is padded to an even length. */
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

/** Reads lists, to which paragraphs refer by number. Lists with the same definition share a counter. */
function readDocLists({ table, tableFrom }: DocFile): (number: number) => NumberedList | undefined {
  const lists = new Map<number, NumberedList>();
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
    const offset = 4 + (number - 1) * overrideBytes;
    return number > 0 && offset + 4 <= overrides.length ? lists.get(overrides.readUInt32LE(offset)) : undefined;
  };
}
