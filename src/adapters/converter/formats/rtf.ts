import { appError } from '#src/errors.ts';
import {
  appendTextBlocks,
  footnoteBlock,
  quotedCommentBlock,
  removeRepeatedTextBlocks,
  renderTextBlocksAsMarkdown,
  type TextBlock,
} from '../office/blocks.ts';
import { headingLevelByStyleName } from '../office/numbering.ts';
import { type DocumentParser, discardDefaultTitle } from '../parsed-document.ts';
import {
  codePageOfCharset,
  createRtfGroupStack,
  decodeRtfBytes,
  headingLevelOfRtfOutline,
  macRomanCodePage,
  type RtfGroupStack,
  readRtfTokens,
} from './rtf-syntax.ts';

/** Reads RTF files: headers, text with notes and comments, footers. Replaces pictures by their alternative texts. */
export const parseRtf: DocumentParser = ({ bytes }) => {
  const headingLevels = new Map<number, number>();
  const groups = createRtfGroupStack(headingLevels);
  const document: RtfDocument = {
    codePage: 1252,
    fontCodePages: new Map(),
    styleOutline: null,
    fallbackLeft: 0,
    headers: [],
    footers: [],
  };
  const readWord = createReadWord(groups, document);
  let pending = '';

  /** Decodes consecutive bytes together, because a multi-byte character spans several RTF tokens. */
  function flush(): void {
    if (pending)
      groups.append(decodeRtfBytes(pending, document.fontCodePages.get(groups.state().font) ?? document.codePage));
    pending = '';
  }

  function defineStyle(): void {
    const name = groups.collected.styles.replace(/;\s*$/, '').trim();
    const level = headingLevelByStyleName(name) ?? headingLevelOfRtfOutline(document.styleOutline);
    if (level) headingLevels.set(groups.state().style, level);
    groups.collected.styles = '';
    document.styleOutline = null;
  }

  for (const token of readRtfTokens(bytes.toString('latin1'))) {
    if (token.kind === 'bytes') {
      const skipped = Math.min(document.fallbackLeft, token.bytes.length);
      document.fallbackLeft -= skipped;
      pending += token.bytes.slice(skipped);
      continue;
    }
    flush();
    if (token.kind === 'word' && document.fallbackLeft > 0 && Object.hasOwn(characters, token.name)) {
      document.fallbackLeft -= 1;
      continue;
    }
    document.fallbackLeft = 0;
    const isStyle = groups.state().target === 'styles';
    if (token.kind === 'open') {
      groups.open();
      if (isStyle) groups.state().style = 0;
    } else if (token.kind === 'word') {
      if (groups.state().target !== 'unread') readWord(token.name, token.value);
    } else {
      if (isStyle) defineStyle();
      groups.close();
      if (groups.depth() === 0) break;
    }
  }
  if (groups.depth() > 0)
    throw appError('corrupt_document', { detail: 'The RTF file ends inside a group: it was cut off.' });
  const { builder } = groups.state();
  builder.end(groups.paragraphState());
  const blocks = [
    ...removeRepeatedTextBlocks(document.headers),
    ...builder.blocks,
    ...removeRepeatedTextBlocks(document.footers),
  ];
  return { body: renderTextBlocksAsMarkdown(blocks), title: discardDefaultTitle(groups.collected.title) };
};

type RtfDocument = {
  codePage: number;
  fontCodePages: Map<number, number>;
  styleOutline: number | null;
  fallbackLeft: number;
  headers: TextBlock[];
  footers: TextBlock[];
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

const unread = new Set(
  'bkmkend bkmkstart colortbl datastore filetbl latentstyles listoverridetable listtable nonesttables nonshppict objdata rsidtbl rxe shprslt tc themedata txe xe xmlnstbl'.split(
    ' ',
  ),
);
/**
 * Control words whose groups are read although they start with `\*`, which allows RTF readers to skip unknown groups.
 */
const knownWithStar = new Set([
  'annotation',
  'atnauthor',
  'fldinst',
  'picprop',
  'shpinst',
  'shppict',
  'nesttableprops',
]);

type ReadWord = (name: string, value: number | null) => void;

function createReadWord(groups: RtfGroupStack, document: RtfDocument): ReadWord {
  const fields: { instruction: string; start: number }[] = [];
  let defaultFont = 0;
  let noteCount = 0;
  let isStarred = false;
  let isContinuedCell = false;

  const words: Record<string, (value: number | null) => void> = {
    ansicpg: (value) => {
      document.codePage = value || document.codePage;
    },
    mac: () => {
      document.codePage = macRomanCodePage;
    },
    pc: () => {
      document.codePage = 437;
    },
    pca: () => {
      document.codePage = 850;
    },
    deff: (value) => {
      defaultFont = value ?? 0;
      groups.state().font = defaultFont;
    },
    uc: (value) => {
      groups.state().fallbackLength = value ?? 1;
    },
    u: (value) => {
      groups.append(String.fromCharCode((value ?? 0) & 0xffff));
      document.fallbackLeft = groups.state().fallbackLength;
    },
    f: (value) => {
      groups.state().font = value ?? 0;
    },
    fcharset: (value) => {
      const page = codePageOfCharset(value ?? 0);
      if (groups.state().target === 'fonts' && page !== undefined)
        document.fontCodePages.set(groups.state().font, page);
    },
    cpg: (value) => {
      if (groups.state().target === 'fonts' && value) document.fontCodePages.set(groups.state().font, value);
    },
    fonttbl: () => groups.collect('fonts'),
    stylesheet: () => groups.collect('styles'),
    info: () => {
      groups.state().target = 'nowhere';
    },
    title: () => groups.collect('title'),
    pict: () => {
      groups.state().target = 'nowhere';
    },
    sp: () => {
      groups.state().target = 'nowhere';
    },
    sn: () => groups.collect('name'),
    sv: () => {
      const { builder } = groups.state();
      groups.collect('value', (text) => {
        if (groups.collected.name.trim() === 'wzDescription' && text.trim()) builder.append(` ${text.trim()} `);
      });
    },
    s: (value) => {
      groups.state().style = value ?? 0;
    },
    outlinelevel: (value) => {
      if (groups.state().target === 'styles') document.styleOutline = value;
      else groups.state().outlineLevel = value;
    },
    pard: () => {
      Object.assign(groups.state(), { style: 0, outlineLevel: null, listDepth: 0, isInTable: false });
    },
    plain: () => {
      Object.assign(groups.state(), { font: defaultFont, isHidden: false });
    },
    v: (value) => {
      groups.state().isHidden = value !== 0;
    },
    deleted: (value) => {
      groups.state().isHidden = value !== 0;
    },
    ilvl: (value) => {
      groups.state().listDepth = Math.min(8, Math.max(0, value ?? 0));
    },
    intbl: () => {
      groups.state().isInTable = true;
    },
    par: () => groups.state().builder.endParagraph(groups.paragraphState()),
    sect: () => groups.state().builder.endParagraph(groups.paragraphState()),
    trowd: () => {
      groups.state().builder.beginRow();
      isContinuedCell = false;
    },
    clvmrg: () => {
      isContinuedCell = true;
    },
    cellx: (value) => {
      groups.state().builder.defineCell({ right: value ?? 0, isContinued: isContinuedCell });
      isContinuedCell = false;
    },
    cell: () => groups.state().builder.endCell(groups.paragraphState()),
    row: () => groups.state().builder.endRow(),
    nestcell: () => groups.state().builder.endInnerCell(),
    nesttableprops: () => {
      groups.state().builder.endInnerRow();
      groups.state().target = 'unread';
    },
    chpgn: () => groups.state().builder.markPageNumber(),
    listtext: () => labelParagraph(),
    pntext: () => labelParagraph(),
    field: () => {
      const { builder } = groups.state();
      fields.push({ instruction: '', start: builder.position() });
      groups.onClose(() => {
        const field = fields.pop();
        if (!field) return;
        if (/^\s*PAGE\b/i.test(field.instruction)) builder.markPageNumber();
        builder.linkFrom(field.start, /^\s*HYPERLINK\s+"([^"]+)"/i.exec(field.instruction)?.[1]);
      });
    },
    fldinst: () =>
      groups.collect('instruction', (text) => {
        const field = fields.at(-1);
        if (field) field.instruction = text;
      }),
    footnote: () =>
      groups.collectBlocks((blocks, outer) => {
        noteCount += 1;
        outer.append(`[^${noteCount}]`);
        outer.addAfter([footnoteBlock(String(noteCount), renderTextBlocksAsMarkdown(blocks))]);
      }),
    atnauthor: () => groups.collect('author'),
    annotation: () =>
      groups.collectBlocks((blocks, outer) => {
        const author = groups.collected.author.trim();
        const text = renderTextBlocksAsMarkdown(blocks).replace(/\n{2,}/g, '\n');
        outer.addAfter([quotedCommentBlock(author ? `Comment by ${author}` : 'Comment', text)]);
        groups.collected.author = '';
      }),
    shptxt: () => groups.collectBlocks((blocks, outer) => outer.addAfter(blocks)),
  };
  for (const side of ['', 'l', 'r', 'f']) {
    words[`header${side}`] = () => groups.collectBlocks((blocks) => appendTextBlocks(document.headers, blocks));
    words[`footer${side}`] = () => groups.collectBlocks((blocks) => appendTextBlocks(document.footers, blocks));
  }

  function labelParagraph(): void {
    const { builder } = groups.state();
    groups.collect('label', (text) => builder.setLabel(text));
  }

  return (name, value) => {
    if (name === '*') {
      isStarred = true;
      return;
    }
    const isLeftOut = unread.has(name) || (isStarred && !knownWithStar.has(name));
    isStarred = false;
    if (isLeftOut) groups.state().target = 'unread';
    else if (Object.hasOwn(words, name)) words[name]?.(value);
    else if (Object.hasOwn(characters, name)) groups.append(characters[name] ?? '');
    else if (name === '\n' || name === '\r') words.par?.(null);
  };
}
