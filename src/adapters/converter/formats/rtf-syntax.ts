import iconv from 'iconv-lite';
import { appError } from '#src/errors.ts';
import type { TextBlock } from '../office/blocks.ts';
import { createOfficeTextBuilder, type OfficeParagraphState, type OfficeTextBuilder } from '../office/text-builder.ts';

/**
 * `word` is an RTF control word or symbol with its numeric parameter; `bytes` are characters in the font's code page.
 */
type RtfToken =
  | { kind: 'open' }
  | { kind: 'close' }
  | { kind: 'word'; name: string; value: number | null }
  | { kind: 'bytes'; bytes: string };

const token = /\\([a-z]+)(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[^\\{}]+/gis;

/** Tokenizes an RTF file decoded as Latin-1, so that each character stands for one byte. */
export function* readRtfTokens(file: string): Generator<RtfToken> {
  token.lastIndex = 0;
  for (let match = token.exec(file); match; match = token.exec(file)) {
    const [whole, word, value, hex, sign, brace] = match;
    if (brace) yield { kind: brace === '{' ? 'open' : 'close' };
    else if (hex) yield { kind: 'bytes', bytes: String.fromCharCode(Number.parseInt(hex, 16)) };
    else if (word === 'bin') token.lastIndex += Math.max(0, Number(value ?? 0));
    else if (word) yield { kind: 'word', name: word, value: value === undefined ? null : Number(value) };
    else if (sign && /[\\{}]/.test(sign)) yield { kind: 'bytes', bytes: sign };
    else if (sign) yield { kind: 'word', name: sign, value: null };
    else yield { kind: 'bytes', bytes: whole.replace(/[\r\n]+/g, '') };
  }
}

const codePages: Record<number, number> = {
  128: 932,
  129: 949,
  134: 936,
  136: 950,
  161: 1253,
  162: 1254,
  163: 1258,
  177: 1255,
  178: 1256,
  186: 1257,
  204: 1251,
  222: 874,
  238: 1250,
  254: 437,
  255: 850,
};
export const macRomanCodePage = 10_000;

/** The Windows code page of a font's RTF character set; undefined means the document's default code page. */
export function codePageOfCharset(charset: number): number | undefined {
  return charset === 77 ? macRomanCodePage : codePages[charset];
}

export function decodeRtfBytes(bytes: string, codePage: number): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII is the same in every code page
  if (/^[\u0000-\u007f]*$/.test(bytes)) return bytes;
  const name = codePage === macRomanCodePage ? 'macintosh' : codePage === 65_001 ? 'utf8' : `cp${codePage}`;
  return iconv.decode(Buffer.from(bytes, 'latin1'), iconv.encodingExists(name) ? name : 'cp1252');
}

/** Maximum depth of groups in an RTF file: each level copies the text of nested notes, which takes time. */
const maxNesting = 1_000;

type Collected = 'label' | 'instruction' | 'fonts' | 'styles' | 'title' | 'author' | 'name' | 'value';

type RtfState = {
  /** Where a group's characters go: `nowhere` drops them but reads inner groups, `unread` also skips inner groups. */
  target: 'text' | Collected | 'nowhere' | 'unread';
  builder: OfficeTextBuilder;
  /** Number of fallback characters that follow each Unicode character (`\uc`). */
  fallbackLength: number;
  font: number;
  isHidden: boolean;
  style: number;
  outlineLevel: number | null;
  listDepth: number;
  isInTable: boolean;
};

export type RtfGroupStack = ReturnType<typeof createRtfGroupStack>;

/**
 * Tracks the nested groups of an RTF file with their formatting and destination.
 * @param headingLevels heading levels by style number, filled while the style sheet is read
 */
export function createRtfGroupStack(headingLevels: ReadonlyMap<number, number>) {
  const open: { outer: RtfState; close: (() => void) | null }[] = [];
  let state: RtfState = {
    target: 'text',
    builder: createOfficeTextBuilder(),
    fallbackLength: 1,
    font: 0,
    isHidden: false,
    style: 0,
    outlineLevel: null,
    listDepth: 0,
    isInTable: false,
  };
  const collected: Record<Collected, string> = {
    label: '',
    instruction: '',
    fonts: '',
    styles: '',
    title: '',
    author: '',
    name: '',
    value: '',
  };

  function onClose(close: () => void): void {
    const group = open.at(-1);
    if (group) group.close = close;
  }

  function paragraphState(): OfficeParagraphState {
    const { outlineLevel, style, listDepth, isInTable } = state;
    const level = outlineLevel === null ? headingLevels.get(style) : headingLevelOfRtfOutline(outlineLevel);
    return { headingLevel: level ?? null, listDepth, isInTable };
  }

  return {
    collected,
    state: () => state,
    depth: () => open.length,
    paragraphState,
    open() {
      if (open.length >= maxNesting) {
        throw appError('corrupt_document', {
          detail: `The RTF file nests groups more than ${maxNesting} levels deep.`,
        });
      }
      open.push({ outer: { ...state }, close: null });
    },
    close() {
      const group = open.pop();
      group?.close?.();
      if (group) state = group.outer;
    },
    onClose,
    append(text: string) {
      const { target, builder, isHidden } = state;
      if (target === 'text') {
        if (!isHidden) builder.append(text);
      } else if (target !== 'nowhere' && target !== 'unread') collected[target] += text;
    },
    /**
     * Collects the group's characters separately instead of adding them to the text, and passes them to `use` when the
     * group closes.
     */
    collect(target: Collected, use?: (text: string) => void) {
      collected[target] = '';
      state.target = target;
      if (use) onClose(() => use(collected[target]));
    },
    /** Reads the group as a separate text, such as a note or a header, and passes its blocks to `use`. */
    collectBlocks(use: (blocks: TextBlock[], outer: OfficeTextBuilder) => void) {
      const outer = state.builder;
      const builder = createOfficeTextBuilder();
      Object.assign(state, { target: 'text', builder, isInTable: false, style: 0, outlineLevel: null });
      onClose(() => {
        builder.end(paragraphState());
        use(builder.blocks, outer);
      });
    },
  };
}

/** RTF outline levels count from 0; level 9 is body text. */
export function headingLevelOfRtfOutline(outline: number | null): number | null {
  return outline !== null && outline >= 0 && outline < 9 ? outline + 1 : null;
}
