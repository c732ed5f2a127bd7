import { appError } from '#src/errors.ts';
import { footnote, remark, renderBlocks, type TextBlock } from '../office/blocks.ts';
import { headingLevel } from '../office/heading-name.ts';
import { createStory, type Story, type StoryParagraph } from '../office/story.ts';
import type { DocumentParser } from '../parsed-document.ts';
import { statedTitle } from '../stated-title.ts';
import { codePageOfCharset, decodeBytes, macCodePage, readTokens } from './rtf-tokens.ts';

/** Where the characters of a group go: `nowhere` while other groups in it are looked at, `unread` with all in it. */
type Target =
  | 'text'
  | 'label'
  | 'instruction'
  | 'fonts'
  | 'styles'
  | 'title'
  | 'author'
  | 'name'
  | 'value'
  | 'nowhere'
  | 'unread';

type Unkept = 'text' | 'nowhere' | 'unread';

/** What holds until the end of a group. */
type State = {
  target: Target;
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

const characters: Record<string, string> = {
  '-': '',
  _: '-',
  '~': ' ',
  bullet: '•',
  emdash: '—',
  emspace: ' ',
  endash: '–',
  enspace: ' ',
  ldblquote: '“',
  line: '\n',
  lquote: '‘',
  page: '\n',
  rdblquote: '”',
  rquote: '’',
  tab: ' ',
};

/** Groups of which nothing is shown, or what another group says again. */
const unread = new Set(
  'bkmkend bkmkstart colortbl datastore filetbl latentstyles listoverridetable listtable nonesttables nonshppict objdata rsidtbl rxe shprslt tc themedata txe xe xmlnstbl'.split(
    ' ',
  ),
);
/** Groups that begin with a star may be left out by who does not know them; these are known. */
const knownWithStar = new Set([
  'annotation',
  'atnauthor',
  'fldinst',
  'picprop',
  'shpinst',
  'shppict',
  'nesttableprops',
]);

/** Rich text: headers, the text with its notes and comments, footers; of pictures their alternative texts. */
export const parseRtf: DocumentParser = ({ bytes }) => {
  const { headers, body, footers, title } = readDocument(bytes.toString('latin1'));
  return { body: renderBlocks([...unique(headers), ...body, ...unique(footers)]), title: statedTitle(title) };
};

/** @throws AppError corrupt_document when the file was cut off */
function readDocument(file: string) {
  const main = createStory();
  const headers: TextBlock[] = [];
  const footers: TextBlock[] = [];
  const fonts = new Map<number, number>();
  const styles = new Map<number, number>();
  const fields: { instruction: string; start: number }[] = [];
  const groups: { state: State; close: (() => void) | null }[] = [];
  let state: State = {
    target: 'text',
    story: main,
    fallbackLength: 1,
    font: 0,
    isHidden: false,
    style: 0,
    outlineLevel: null,
    listDepth: 0,
    isInTable: false,
  };
  const collected: Record<Exclude<Target, Unkept>, string> = {
    label: '',
    instruction: '',
    fonts: '',
    styles: '',
    title: '',
    author: '',
    name: '',
    value: '',
  };
  let codePage = 1252;
  let defaultFont = 0;
  let styleOutline: number | null = null;
  let marks = 0;
  let isStarred = false;
  let isContinuedCell = false;
  let toSkip = 0;
  let pending = '';

  const paragraphState = (): StoryParagraph => ({
    headingLevel: state.outlineLevel === null ? (styles.get(state.style) ?? null) : levelOf(state.outlineLevel),
    listDepth: state.listDepth,
    isInTable: state.isInTable,
  });

  function emit(text: string): void {
    if (state.target === 'text') {
      if (!state.isHidden) state.story.append(text);
    } else if (state.target !== 'nowhere' && state.target !== 'unread') collected[state.target] += text;
  }

  function flush(): void {
    if (pending) emit(decodeBytes(pending, fonts.get(state.font) ?? codePage));
    pending = '';
  }

  function onClose(close: () => void): void {
    const group = groups.at(-1);
    if (group) group.close = close;
  }

  /** The rest of the group is a text of its own. */
  function tell(use: (blocks: TextBlock[], outer: Story) => void): void {
    const outer = state.story;
    const story = createStory();
    state = { ...state, target: 'text', story, isInTable: false, style: 0, outlineLevel: null };
    onClose(() => {
      story.end(paragraphState());
      use(story.blocks, outer);
    });
  }

  function collect(target: Exclude<Target, Unkept>, use?: (text: string) => void): void {
    collected[target] = '';
    state.target = target;
    if (use) onClose(() => use(collected[target]));
  }

  const words: Record<string, (value: number | null) => void> = {
    ansicpg: (value) => {
      codePage = value || codePage;
    },
    mac: () => {
      codePage = macCodePage;
    },
    pc: () => {
      codePage = 437;
    },
    pca: () => {
      codePage = 850;
    },
    deff: (value) => {
      defaultFont = value ?? 0;
      state.font = defaultFont;
    },
    uc: (value) => {
      state.fallbackLength = value ?? 1;
    },
    u: (value) => {
      emit(String.fromCharCode((value ?? 0) & 0xffff));
      toSkip = state.fallbackLength;
    },
    f: (value) => {
      state.font = value ?? 0;
    },
    fcharset: (value) => {
      const page = codePageOfCharset(value ?? 0);
      if (state.target === 'fonts' && page !== undefined) fonts.set(state.font, page);
    },
    cpg: (value) => {
      if (state.target === 'fonts' && value) fonts.set(state.font, value);
    },
    fonttbl: () => collect('fonts'),
    stylesheet: () => collect('styles'),
    info: () => {
      state.target = 'nowhere';
    },
    title: () => collect('title'),
    pict: () => {
      state.target = 'nowhere';
    },
    sp: () => {
      state.target = 'nowhere';
    },
    sn: () => collect('name'),
    sv: () => {
      const { story } = state;
      collect('value', (text) => {
        if (collected.name.trim() === 'wzDescription' && text.trim()) story.append(` ${text.trim()} `);
      });
    },
    s: (value) => {
      state.style = value ?? 0;
    },
    outlinelevel: (value) => {
      if (state.target === 'styles') styleOutline = value;
      else state.outlineLevel = value;
    },
    pard: () => {
      Object.assign(state, { style: 0, outlineLevel: null, listDepth: 0, isInTable: false });
    },
    plain: () => {
      Object.assign(state, { font: defaultFont, isHidden: false });
    },
    v: (value) => {
      state.isHidden = value !== 0;
    },
    deleted: (value) => {
      state.isHidden = value !== 0;
    },
    ilvl: (value) => {
      state.listDepth = Math.min(8, Math.max(0, value ?? 0));
    },
    intbl: () => {
      state.isInTable = true;
    },
    par: () => state.story.endParagraph(paragraphState()),
    sect: () => state.story.endParagraph(paragraphState()),
    trowd: () => {
      state.story.beginRow();
      isContinuedCell = false;
    },
    clvmrg: () => {
      isContinuedCell = true;
    },
    cellx: (value) => {
      state.story.defineCell({ right: value ?? 0, isContinued: isContinuedCell });
      isContinuedCell = false;
    },
    cell: () => state.story.endCell(paragraphState()),
    row: () => state.story.endRow(),
    nestcell: () => state.story.endInnerCell(),
    nesttableprops: () => {
      state.story.endInnerRow();
      state.target = 'unread';
    },
    chpgn: () => state.story.markPageNumber(),
    listtext: () => labelParagraph(),
    pntext: () => labelParagraph(),
    field: () => {
      const { story } = state;
      fields.push({ instruction: '', start: story.position() });
      onClose(() => {
        const field = fields.pop();
        if (!field) return;
        if (/^\s*PAGE\b/i.test(field.instruction)) story.markPageNumber();
        story.linkFrom(field.start, /^\s*HYPERLINK\s+"([^"]+)"/i.exec(field.instruction)?.[1]);
      });
    },
    fldinst: () =>
      collect('instruction', (text) => {
        const field = fields.at(-1);
        if (field) field.instruction = text;
      }),
    footnote: () =>
      tell((blocks, outer) => {
        marks += 1;
        outer.append(`[^${marks}]`);
        outer.addAfter([footnote(String(marks), renderBlocks(blocks))]);
      }),
    atnauthor: () => collect('author'),
    annotation: () =>
      tell((blocks, outer) => {
        const author = collected.author.trim();
        const text = renderBlocks(blocks).replace(/\n{2,}/g, '\n');
        outer.addAfter([remark(author ? `Comment by ${author}` : 'Comment', text)]);
        collected.author = '';
      }),
    shptxt: () => tell((blocks, outer) => outer.addAfter(blocks)),
  };
  for (const side of ['', 'l', 'r', 'f']) {
    words[`header${side}`] = () => tell((blocks) => headers.push(...blocks));
    words[`footer${side}`] = () => tell((blocks) => footers.push(...blocks));
  }

  function labelParagraph(): void {
    const { story } = state;
    collect('label', (text) => story.setLabel(text));
  }

  function readWord(name: string, value: number | null): void {
    if (name === '*') {
      isStarred = true;
      return;
    }
    const isLeftOut = unread.has(name) || (isStarred && !knownWithStar.has(name));
    isStarred = false;
    if (isLeftOut) state.target = 'unread';
    else if (Object.hasOwn(words, name)) words[name]?.(value);
    else if (Object.hasOwn(characters, name)) emit(characters[name] ?? '');
    else if (name === '\n' || name === '\r') words.par?.(null);
  }

  for (const token of readTokens(file)) {
    if (token.kind === 'bytes') {
      const skipped = Math.min(toSkip, token.bytes.length);
      toSkip -= skipped;
      pending += token.bytes.slice(skipped);
      continue;
    }
    flush();
    if (token.kind === 'word' && toSkip > 0 && token.name !== 'u') {
      toSkip -= 1;
      continue;
    }
    toSkip = 0;
    if (token.kind === 'open') {
      groups.push({ state: { ...state }, close: null });
      if (state.target === 'styles') Object.assign(state, { style: 0 });
    } else if (token.kind === 'word') {
      if (state.target !== 'unread') readWord(token.name, token.value);
    } else {
      if (state.target === 'styles') {
        const level = headingLevel(collected.styles.replace(/;\s*$/, '').trim()) ?? levelOf(styleOutline);
        if (level) styles.set(state.style, level);
        collected.styles = '';
        styleOutline = null;
      }
      const group = groups.pop();
      group?.close?.();
      if (group) state = group.state;
      if (groups.length === 0) break;
    }
  }
  if (groups.length > 0) throw appError('corrupt_document', { detail: 'The file has no end: it was cut off.' });
  main.end(paragraphState());
  return { headers, body: main.blocks, footers, title: collected.title };
}

/** Outlines count from 0, and the last level is text. */
function levelOf(outline: number | null): number | null {
  return outline !== null && outline >= 0 && outline < 9 ? outline + 1 : null;
}

function unique(blocks: TextBlock[]): TextBlock[] {
  return [...new Map(blocks.map((block) => [JSON.stringify(block), block])).values()];
}
