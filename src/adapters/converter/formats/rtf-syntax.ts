import iconv from 'iconv-lite';
import { appError } from '#src/errors.ts';
import type { TextBlock } from '../office/blocks.ts';
import { createStory, type Story, type StoryParagraph } from '../office/text-builder.ts';

/** `word` is a control word or sign with its number, `bytes` are characters of the code page of the font. */
type RtfToken =
  | { kind: 'open' }
  | { kind: 'close' }
  | { kind: 'word'; name: string; value: number | null }
  | { kind: 'bytes'; bytes: string };

const token = /\\([a-z]+)(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[^\\{}]+/gis;

/** The parts of a file in which each character stands for a byte. */
export function* readTokens(file: string): Generator<RtfToken> {
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

/** Code pages by the number of a font's character set. */
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
export const macCodePage = 10_000;

/** Undefined for the character set of the document. */
export function codePageOfCharset(charset: number): number | undefined {
  return charset === 77 ? macCodePage : codePages[charset];
}

export function decodeBytes(bytes: string, codePage: number): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII is the same in every code page
  if (/^[\u0000-\u007f]*$/.test(bytes)) return bytes;
  const name = codePage === macCodePage ? 'macintosh' : codePage === 65_001 ? 'utf8' : `cp${codePage}`;
  return iconv.decode(Buffer.from(bytes, 'latin1'), iconv.encodingExists(name) ? name : 'cp1252');
}

/** Deeper documents are no documents; notes in notes would be copied from each into the next. */
const deepestNesting = 1_000;

/** Groups whose characters are kept apart from the text. */
type Collected = 'label' | 'instruction' | 'fonts' | 'styles' | 'title' | 'author' | 'name' | 'value';

/** What holds until the end of a group. */
type RtfState = {
  /** Where characters go: `nowhere` while other groups inside are looked at, `unread` with all that is inside. */
  target: 'text' | Collected | 'nowhere' | 'unread';
  story: Story;
  /** How many characters for older readers follow one that is given by its number in Unicode. */
  fallbackLength: number;
  font: number;
  isHidden: boolean;
  style: number;
  outlineLevel: number | null;
  listDepth: number;
  isInTable: boolean;
};

export type RtfGroups = ReturnType<typeof createGroups>;

/**
 * The groups of a file that are open, with what holds inside of them.
 * @param headingLevels of styles by their numbers, as far as they are known when a paragraph ends
 */
export function createGroups(headingLevels: ReadonlyMap<number, number>) {
  const open: { outer: RtfState; close: (() => void) | null }[] = [];
  let state: RtfState = {
    target: 'text',
    story: createStory(),
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

  function paragraphState(): StoryParagraph {
    const { outlineLevel, style, listDepth, isInTable } = state;
    const level = outlineLevel === null ? headingLevels.get(style) : levelOfOutline(outlineLevel);
    return { headingLevel: level ?? null, listDepth, isInTable };
  }

  return {
    collected,
    state: () => state,
    depth: () => open.length,
    paragraphState,
    open() {
      if (open.length >= deepestNesting) {
        throw appError('corrupt_document', { detail: `The file nests more than ${deepestNesting} groups.` });
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
      const { target, story, isHidden } = state;
      if (target === 'text') {
        if (!isHidden) story.append(text);
      } else if (target !== 'nowhere' && target !== 'unread') collected[target] += text;
    },
    /** The characters of the group are kept apart, and handed over when it ends. */
    collect(target: Collected, use?: (text: string) => void) {
      collected[target] = '';
      state.target = target;
      if (use) onClose(() => use(collected[target]));
    },
    /** The group is a text of its own. */
    tell(use: (blocks: TextBlock[], outer: Story) => void) {
      const outer = state.story;
      const story = createStory();
      Object.assign(state, { target: 'text', story, isInTable: false, style: 0, outlineLevel: null });
      onClose(() => {
        story.end(paragraphState());
        use(story.blocks, outer);
      });
    },
  };
}

/** Outlines count from 0, and the last level is text. */
export function levelOfOutline(outline: number | null): number | null {
  return outline !== null && outline >= 0 && outline < 9 ? outline + 1 : null;
}
