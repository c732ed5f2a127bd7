import { addressEnd, addressRestEnd, addressStart, longestAddress, withoutClosing } from './addresses.ts';

/** What is looked at in a text, in the order in which it is recognised. */
const special = new RegExp(
  [
    `(?<address>${addressStart})`,
    String.raw`(?<scheme>:\\?\/\\?\/)`,
    String.raw`(?<image>!\[)`,
    String.raw`(?<target>\]\()`,
    String.raw`(?<definition>\]:)`,
    '(?<tag><(?=[a-z/!?]))',
    '(?<entity>&(?=#|(?:colon|sol|period|bsol);))',
    String.raw`(?<line>[\r\n])`,
  ].join('|'),
  'gi',
);
/** The end of a text that more text may make something special of. */
const unfinished =
  /(?:!|\]|<|&[a-z]{0,7}|(?<![a-z])(?:h|ht|htt|https?|f|ft|ftps?)(?::\\?\/?\\?)?|:\\?\/?\\?|(?<![a-z])(?:w{1,3}\.?|m(?:a(?:i(?:l(?:t(?:o:?)?)?)?)?)?))$/i;
/** With the character before it. */
const longestUnfinished = 11;

/** For readers of Markdown; `\s` knows more, which they take for a part of an address. */
const space = String.raw`[ \t\r\n]`;
const sign = String.raw`[^ \t\r\n()<>]`;
/** A link's address in brackets, with its title: `](<address> "title")`. */
const target = new RegExp(
  String.raw`^(?<opening>\]\(${space}{0,8}(?:<(?<inAngles>[^<> \t\r\n]*)>|(?<alone>(?:${sign}|\(${sign}*\))*)))(?:${space}{1,8}"(?<title>[^"]{0,200})")?${space}{0,8}\)`,
);
/** Says no more than words to readers who see no link, and so no title, here. */
const plainTitle = /^(?!.*www\.)[\p{L}\p{N} .,;?%()'’–-]*$/iu;
/** The same as far as it goes, to the end of the text. */
const unfinishedTarget = new RegExp(
  String.raw`^\]\(${space}{0,8}(?:<[^<> \t\r\n]*>?|(?:${sign}|\(${sign}*\))*(?:\(${sign}*)?)(?:${space}{1,8}(?:"[^"]{0,200}"?)?)?${space}{0,8}$`,
);
const longestTarget = longestAddress + 250;
/** What may stand behind a link without a space: what closes a sentence, a bracket or an emphasis, and nothing else. */
const closingBehindLink = /^[.,;:!?)\]}'"’”»…*_~`|\\]{0,16}(?=[ \t\r\n]|$)/;
/** With the sign that shows that it is over. */
const longestClosing = 17;
/** The end of an emphasis, which a space before it would undo. Of a character of two halves only one may be there yet. */
const emphasisEnd = /^[*_~]{1,3}(?=[^\p{L}\p{N}\u{10000}-\u{10ffff}\ud800-\udfff*_~])/u;

/** The beginning of a line, to what may be a fence of code; what containers it is in comes first. */
const lineStart = /^([ \t>*+\-\d.):]*)(`{3,}|~{3,}|\$\$)?/;
const unfinishedLineStart = /^[ \t>*+\-\d.):]*(?:`*|~*|\$)$/;
const longestFenceLine = 200;
const rememberedLine = 200;

/**
 * Kinds of code that clients draw, with the images and links that it names, instead of showing it. Wherever they stand
 * behind the fence, as clients differ on what names the kind; and what readers may take for other letters.
 */
const drawnCode =
  /[&\\]|mermaid|plantuml|puml|graphviz|svg|vega|excalidraw|bpmn|wavedrom|kroki|(?:geo|topo)json|\b(?:mmd|dot|gv|d2|stl|math|latex|tex)\b/i;

const removed = '(link removed)';

/** A text without addresses, images, links and tags, on as many lines as it had. */
export function withoutAddresses(text: string): string {
  const rewriter = createAddressRewriter(new Set());
  return (rewriter.add(text) + rewriter.end()).replaceAll(removed, '');
}

/**
 * Rewrites a reply in Markdown while it is written, so that a client that shows it fetches nothing by itself, and
 * nothing that the model was told leaves in an address:
 * - an image becomes a link (`! [text](address)`);
 * - an address that is not, to the letter, in `known` becomes "(link removed)", in a link and alone;
 * - a link's title that is more than plain words goes;
 * - what follows a known address directly is set apart by a space, unless it only closes a sentence, a bracket or an
 *   emphasis;
 * - what a link is defined by (`[text]: address`), a tag of HTML and an entity that could hide an address are broken up
 *   by a space.
 * Blocks of code between fences at the beginning of a line stay as they are. Behind a fence that stands elsewhere, where
 * readers of Markdown differ on what is code, or of a kind that they draw, nothing counts as code any more.
 *
 * However the reply is cut into pieces, the text is the same; it holds back only what may become something of these,
 * and no more than some 2,000 characters, as what is held back is read again with each piece.
 */
export function createAddressRewriter(known: ReadonlySet<string>) {
  let held = '';
  let isLineStart = true;
  /** The fence that the code ends at, as far as we are in code. */
  let fence: string | null = null;
  let isCodeCertain = true;
  /** In an address that is too long to be one. */
  let isInLongAddress = false;
  /** The line so far, as the model wrote it. */
  let line = '';
  let last = '\n';
  let removedCount = 0;

  function say(text: string): string {
    last = text.at(-1) ?? last;
    return text;
  }

  function hear(text: string): string {
    line = (line + text).slice(-rememberedLine);
    return text;
  }

  /** Stands in place of an address; never directly behind a bracket that would make a link of it. */
  function remove(): string {
    removedCount += 1;
    return say(/[\s(]/.test(last) ? removed : ` ${removed}`);
  }

  function endLine(): void {
    isLineStart = true;
    line = '';
  }

  /** What goes out of a text of which the rest may follow; what does not yet is in `held`. */
  function* rewrite(text: string, isEnd: boolean): Generator<string> {
    let at = 0;
    while (at < text.length) {
      if (isInLongAddress) {
        at = passLongAddress(text, at, isEnd);
        if (isInLongAddress) break;
        continue;
      }
      const rest = text.slice(at);
      if (isLineStart) {
        const lineEnd = rest.search(/[\r\n]/);
        if (!isEnd && lineEnd < 0 && mayBeFence(rest)) break;
        isLineStart = false;
        const isWhole = lineEnd >= 0 || isEnd;
        if (openOrCloseFence(lineEnd < 0 ? rest : rest.slice(0, lineEnd), isWhole)) {
          const end = lineEnd < 0 ? text.length : at + lineEnd;
          yield say(text.slice(at, end));
          at = end;
          continue;
        }
      }
      if (fence !== null) {
        const lineEnd = rest.search(/[\r\n]/);
        const end = lineEnd < 0 ? text.length : at + lineEnd + 1;
        if (lineEnd >= 0) endLine();
        yield say(text.slice(at, end));
        at = end;
        continue;
      }
      const next = at;
      at = yield* rewritePlain(text, at, isEnd);
      if (at === next) break;
    }
    held = text.slice(at);
  }

  /** Goes over it without a word; returns where it stopped. */
  function passLongAddress(text: string, from: number, isEnd: boolean): number {
    const end = addressRestEnd(text, from);
    isInLongAddress = end === text.length && !isEnd;
    // More text may make a `](` of a bracket.
    const stop = isInLongAddress && text.endsWith(']') ? end - 1 : end;
    hear(text.slice(from, stop));
    return stop;
  }

  function mayBeFence(rest: string): boolean {
    if (rest.length > longestFenceLine) return false;
    if (unfinishedLineStart.test(rest)) return true;
    const [, , mark] = lineStart.exec(rest) ?? [];
    return mark !== undefined;
  }

  /** True for a line that opens or closes code, which goes out as it is. */
  function openOrCloseFence(said: string, isWhole: boolean): boolean {
    const start = said.slice(0, longestFenceLine + 1);
    const [, prefix = '', mark] = lineStart.exec(start) ?? [];
    if (mark === undefined) {
      // A fence may stand behind what we look at.
      if (fence === null && start.length > longestFenceLine && unfinishedLineStart.test(start)) isCodeCertain = false;
      return false;
    }
    const info = start.slice(prefix.length + mark.length);
    const isShort = isWhole && start.length <= longestFenceLine;
    if (fence !== null) {
      if (!/^ {0,3}$/.test(prefix) || !mark.startsWith(fence)) return false;
      const isClosing = isShort && /^[ \t]*$/.test(info);
      // With other spaces behind it, or too many, it closes for some readers only.
      if (!isClosing && info.trim() === '') isCodeCertain = false;
      if (isClosing || !isCodeCertain) fence = null;
      return isClosing;
    }
    if (!isCodeCertain) return false;
    const isShown = mark !== '$$' && !info.includes('`') && !drawnCode.test(info);
    const isSure = prefix === '' && isShort && isShown;
    if (isSure) fence = mark;
    else isCodeCertain = false;
    return isSure;
  }

  /** Goes over text up to and with the next special thing; returns where it stopped. */
  function* rewritePlain(text: string, from: number, isEnd: boolean): Generator<string, number> {
    const limit = isEnd ? text.length : text.length - unfinishedLength(text, from);
    special.lastIndex = from;
    const match = special.exec(text);
    if (match === null || match.index >= limit) {
      yield say(hear(text.slice(from, limit)));
      return limit;
    }
    yield say(hear(text.slice(from, match.index)));
    const { index, groups = {} } = match;
    if (groups.address !== undefined && /[a-z]$/i.test(line)) {
      // In the middle of a word it begins no address, but what follows `://` may be one.
      const letters = match[0].search(/[^a-z]/i);
      yield say(hear(match[0].slice(0, letters)));
      return index + letters;
    }
    if (groups.address !== undefined || groups.scheme !== undefined) {
      const end = addressEnd(text, index);
      // One more, as more text may make a `](` of a bracket.
      if (end === text.length && !isEnd && end - index <= longestAddress + 1) return index;
      if (end - index > longestAddress) {
        isInLongAddress = true;
        hear(match[0]);
        yield remove();
        return index + match[0].length;
      }
      const address = withoutClosing(text.slice(index, end));
      hear(address);
      if (!known.has(address)) yield remove();
      // Readers differ on where an address ends, also at a `<` or a `](`: only a space of theirs ends it for all.
      else yield say(address) + (/[^ \t\r\n]/.test(text[end] ?? ' ') ? say(' ') : '');
      return index + Math.max(address.length, match[0].length);
    }
    if (groups.target !== undefined) {
      const ahead = text.slice(index, index + longestTarget);
      const link = target.exec(ahead);
      if (link === null && !isEnd && ahead.length < longestTarget && unfinishedTarget.test(ahead)) return index;
      const { opening = '', inAngles, alone, title = '' } = link?.groups ?? {};
      const address = inAngles ?? alone;
      if (link === null || address === undefined || !/[:/]/.test(address)) return yield* broken(index, '](', '] (');
      const end = index + link[0].length;
      if (!known.has(address)) {
        hear(link[0]);
        yield say(']') + remove();
        return end;
      }
      const behind = text.slice(end, end + longestClosing);
      const closing = closingBehindLink.exec(behind);
      if (closing !== null && end + closing[0].length === text.length && !isEnd) return index;
      hear(link[0]);
      yield say(plainTitle.test(title) ? link[0] : `${opening})`);
      if (closing !== null) return end;
      // Without a text before it readers make a link of the address alone, and of all that stands directly behind it.
      const [emphasis = ''] = emphasisEnd.exec(behind) ?? [];
      yield say(`${hear(emphasis)} `);
      return end + emphasis.length;
    }
    if (groups.image !== undefined) return yield* broken(index, '![', '! [');
    if (groups.definition !== undefined) {
      return yield* broken(index, ']:', isNumberedSource(line) ? ']:' : '] :');
    }
    if (groups.tag !== undefined) return yield* broken(index, '<', '< ');
    if (groups.entity !== undefined) return yield* broken(index, '&', '& ');
    yield say(match[0]);
    endLine();
    return index + 1;
  }

  function* broken(index: number, original: string, apart: string): Generator<string, number> {
    hear(original);
    yield say(apart);
    return index + original.length;
  }

  function unfinishedLength(text: string, from: number): number {
    const end = text.slice(Math.max(from, text.length - longestUnfinished));
    const before = line.slice(-1);
    return Math.min(unfinished.exec((before + end).slice(-longestUnfinished))?.[0].length ?? 0, text.length - from);
  }

  function addMore(piece: string, isEnd: boolean): string {
    return [...rewrite(held + piece, isEnd)].join('');
  }

  return {
    /** The text that is certain now. */
    add: (piece: string): string => addMore(piece, false),
    /** The text that was held back, when nothing more comes. */
    end: (): string => addMore('', true),
    /** How many addresses it took away. */
    removedCount: (): number => removedCount,
  };
}

/** A numbered source in the middle of a line, which no reader takes for the definition of a link. */
function isNumberedSource(line: string): boolean {
  const source = line.lastIndexOf('[');
  if (source < 0 || !/^\[\d[\d, ]*$/.test(line.slice(source))) return false;
  const before = line.slice(0, source);
  // A link that is split over lines brings a break along.
  const lineBreak = Math.max(before.lastIndexOf('\n'), before.lastIndexOf('\r'));
  return /[^\s>*+\-.)\d]/.test(before.slice(lineBreak + 1));
}
