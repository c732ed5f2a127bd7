import { findEndOfContinuedUrl, findEndOfUrl, maxUrlLength, trimClosingPunctuation, urlStartPattern } from './urls.ts';

const specialSyntax = new RegExp(
  [
    `(?<address>${urlStartPattern})`,
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
/** Matches the end of a text that may become a link or other special syntax when more text arrives. */
const incompleteSyntax =
  /(?:!|\]|<|&[a-z]{0,7}|(?<![a-z])(?:h|ht|htt|https?|f|ft|ftps?)(?::\\?\/?\\?)?|:\\?\/?\\?|(?<![a-z])(?:w{1,3}\.?|m(?:a(?:i(?:l(?:t(?:o:?)?)?)?)?)?))$/i;
const longestIncompleteSyntax = 11;

/** White space of Markdown. `\s` matches more, which Markdown treats as part of a URL. */
const space = String.raw`[ \t\r\n]`;
const sign = String.raw`[^ \t\r\n()<>]`;
const linkTarget = new RegExp(
  String.raw`^(?<opening>\]\(${space}{0,8}(?:<(?<inAngles>[^<> \t\r\n]*)>|(?<alone>(?:${sign}|\(${sign}*\))*)))(?:${space}{1,8}"(?<title>[^"]{0,200})")?${space}{0,8}\)`,
);
/** Matches link titles of plain words, which are safe also for clients that show a title as text. */
const plainTitle = /^(?!.*www\.)[\p{L}\p{N} .,;?%()'’–-]*$/iu;
const incompleteLinkTarget = new RegExp(
  String.raw`^\]\(${space}{0,8}(?:<[^<> \t\r\n]*>?|(?:${sign}|\(${sign}*\))*(?:\(${sign}*)?)(?:${space}{1,8}(?:"[^"]{0,200}"?)?)?${space}{0,8}$`,
);
const longestLinkTarget = maxUrlLength + 250;
/** Characters that may directly follow a link, because they close a sentence, a bracket or an emphasis. */
const closingAfterLink = /^[.,;:!?)\]}'"’”»…*_~`|\\]{0,16}(?=[ \t\r\n]|$)/;
const longestClosing = 17;
/** Matches markers that end an emphasis; a space before them would break the emphasis. */
const emphasisEnd = /^[*_~]{1,3}(?=[^\p{L}\p{N}\u{10000}-\u{10ffff}\ud800-\udfff*_~])/u;

/** Matches the beginning of a line up to a possible code fence, including container markers (quotes, lists). */
const lineStart = /^([ \t>*+\-\d.):]*)(`{3,}|~{3,}|\$\$)?/;
const incompleteLineStart = /^[ \t>*+\-\d.):]*(?:`*|~*|\$)$/;
const longestFenceLine = 200;
const keptLineLength = 200;

/**
 * Languages of code blocks that clients render with images and links instead of showing the code. Matched anywhere in
 * the info string, because clients differ in which part of it names the language. Also matches characters with which an
 * info string may be escaped.
 */
const renderedCode =
  /[&\\]|mermaid|plantuml|puml|graphviz|svg|vega|excalidraw|bpmn|wavedrom|kroki|(?:geo|topo)json|\b(?:mmd|dot|gv|d2|stl|math|latex|tex)\b/i;

const removalNotice = '(link removed)';

/** Removes URLs and breaks up links, images and tags; keeps the number of lines. */
export function removeLinks(text: string): string {
  const filter = createLinkFilter(new Set());
  return (filter.add(text) + filter.end()).replaceAll(removalNotice, '');
}

/**
 * Rewrites a Markdown reply while it is streamed, so that a client that renders it loads nothing automatically, and data
 * cannot leave in URLs:
 * - an image becomes a link (`! [text](address)`);
 * - a URL that is not exactly in `known` becomes "(link removed)";
 * - a link's title is removed unless it consists of plain words;
 * - a space is inserted between a known URL and a directly following text, unless that only closes a sentence, a bracket or
 *   an emphasis;
 * - link definitions (`[text]: address`), HTML tags and entities that could hide a URL are broken up by a space.
 * Fenced code blocks at the beginning of a line stay unchanged. After a fence in another position, where Markdown parsers
 * differ, or of a language that clients render, nothing counts as code any more.
 *
 * The result does not depend on how the reply is split into pieces. At most about 2,000 characters are held back, because
 * they are scanned again with each piece. Why no Markdown parser does this: see docs/adr/0037.
 */
export function createLinkFilter(known: ReadonlySet<string>) {
  let held = '';
  let isLineStart = true;
  let fence: string | null = null;
  let isFenceCertain = true;
  let isInLongAddress = false;
  let line = '';
  let lastEmitted = '\n';
  let removedCount = 0;

  function emit(text: string): string {
    lastEmitted = text.at(-1) ?? lastEmitted;
    return text;
  }

  function consume(text: string): string {
    line = (line + text).slice(-keptLineLength);
    return text;
  }

  /** Replaces a URL by a notice, after a space so that a preceding `]` does not make the notice a link target. */
  function remove(): string {
    removedCount += 1;
    return emit(/[\s(]/.test(lastEmitted) ? removalNotice : ` ${removalNotice}`);
  }

  function endLine(): void {
    isLineStart = true;
    line = '';
  }

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
        if (!isEnd && lineEnd < 0 && mayBecomeFence(rest)) break;
        isLineStart = false;
        const isWhole = lineEnd >= 0 || isEnd;
        if (openOrCloseFence(lineEnd < 0 ? rest : rest.slice(0, lineEnd), isWhole)) {
          const end = lineEnd < 0 ? text.length : at + lineEnd;
          yield emit(text.slice(at, end));
          at = end;
          continue;
        }
      }
      if (fence !== null) {
        const lineEnd = rest.search(/[\r\n]/);
        const end = lineEnd < 0 ? text.length : at + lineEnd + 1;
        if (lineEnd >= 0) endLine();
        yield emit(text.slice(at, end));
        at = end;
        continue;
      }
      const next = at;
      at = yield* rewriteProse(text, at, isEnd);
      if (at === next) break;
    }
    held = text.slice(at);
  }

  function passLongAddress(text: string, from: number, isEnd: boolean): number {
    const end = findEndOfContinuedUrl(text, from);
    isInLongAddress = end === text.length && !isEnd;
    // Leaves a `]` at the end of the text for the next piece, because more text may turn it into `](`.
    const stop = isInLongAddress && text.endsWith(']') ? end - 1 : end;
    consume(text.slice(from, stop));
    return stop;
  }

  function mayBecomeFence(rest: string): boolean {
    if (rest.length > longestFenceLine) return false;
    if (incompleteLineStart.test(rest)) return true;
    const [, , mark] = lineStart.exec(rest) ?? [];
    return mark !== undefined;
  }

  function openOrCloseFence(lineText: string, isWhole: boolean): boolean {
    const start = lineText.slice(0, longestFenceLine + 1);
    const [, prefix = '', mark] = lineStart.exec(start) ?? [];
    if (mark === undefined) {
      if (fence === null && start.length > longestFenceLine && incompleteLineStart.test(start)) isFenceCertain = false;
      return false;
    }
    const info = start.slice(prefix.length + mark.length);
    const isShort = isWhole && start.length <= longestFenceLine;
    if (fence !== null) {
      if (!/^ {0,3}$/.test(prefix) || !mark.startsWith(fence)) return false;
      const isClosing = isShort && /^[ \t]*$/.test(info);
      // A fence followed by other characters or too many spaces closes the code block only for some Markdown parsers.
      if (!isClosing && info.trim() === '') isFenceCertain = false;
      if (isClosing || !isFenceCertain) fence = null;
      return isClosing;
    }
    if (!isFenceCertain) return false;
    const isShownAsCode = mark !== '$$' && !info.includes('`') && !renderedCode.test(info);
    const isCertain = prefix === '' && isShort && isShownAsCode;
    if (isCertain) fence = mark;
    else isFenceCertain = false;
    return isCertain;
  }

  function* rewriteProse(text: string, from: number, isEnd: boolean): Generator<string, number> {
    const limit = isEnd ? text.length : text.length - incompleteLength(text, from);
    specialSyntax.lastIndex = from;
    const match = specialSyntax.exec(text);
    if (match === null || match.index >= limit) {
      yield emit(consume(text.slice(from, limit)));
      return limit;
    }
    yield emit(consume(text.slice(from, match.index)));
    const { index, groups = {} } = match;
    if (groups.address !== undefined && /[a-z]$/i.test(line)) {
      // Inside a word a scheme such as `http` does not begin a URL, but `://` may.
      const letters = match[0].search(/[^a-z]/i);
      yield emit(consume(match[0].slice(0, letters)));
      return index + letters;
    }
    if (groups.address !== undefined || groups.scheme !== undefined) {
      return yield* rewriteUrl(text, index, match[0], isEnd);
    }
    if (groups.target !== undefined) return yield* rewriteLinkTarget(text, index, isEnd);
    if (groups.image !== undefined) return yield* breakUp(index, '![', '! [');
    if (groups.definition !== undefined) {
      return yield* breakUp(index, ']:', isNumberedSource(line) ? ']:' : '] :');
    }
    if (groups.tag !== undefined) return yield* breakUp(index, '<', '< ');
    if (groups.entity !== undefined) return yield* breakUp(index, '&', '& ');
    yield emit(match[0]);
    endLine();
    return index + 1;
  }

  function* rewriteUrl(text: string, index: number, start: string, isEnd: boolean): Generator<string, number> {
    const end = findEndOfUrl(text, index);
    // Waits for one more character after a URL, because more text may turn a bracket into `](`.
    if (end === text.length && !isEnd && end - index <= maxUrlLength + 1) return index;
    if (end - index > maxUrlLength) {
      isInLongAddress = true;
      consume(start);
      yield remove();
      return index + start.length;
    }
    const address = trimClosingPunctuation(text.slice(index, end));
    consume(address);
    if (!known.has(address)) yield remove();
    // Markdown parsers differ on where a URL ends, also at `<` or `](`: only Markdown white space ends it for all of
    // them.
    else yield emit(address) + (/[^ \t\r\n]/.test(text[end] ?? ' ') ? emit(' ') : '');
    return index + Math.max(address.length, start.length);
  }

  function* rewriteLinkTarget(text: string, index: number, isEnd: boolean): Generator<string, number> {
    const ahead = text.slice(index, index + longestLinkTarget);
    const link = linkTarget.exec(ahead);
    if (link === null && !isEnd && ahead.length < longestLinkTarget && incompleteLinkTarget.test(ahead)) return index;
    const { opening = '', inAngles, alone, title = '' } = link?.groups ?? {};
    const address = inAngles ?? alone;
    if (link === null || address === undefined || !/[:/]/.test(address)) return yield* breakUp(index, '](', '] (');
    const end = index + link[0].length;
    if (!known.has(address)) {
      consume(link[0]);
      yield emit(']') + remove();
      return end;
    }
    const after = text.slice(end, end + longestClosing);
    const closing = closingAfterLink.exec(after);
    if (closing !== null && end + closing[0].length === text.length && !isEnd) return index;
    consume(link[0]);
    yield emit(plainTitle.test(title) ? link[0] : `${opening})`);
    if (closing !== null) return end;
    // Adds a space after a link without text: some clients show the bare URL of such a link and include the characters
    // after it.
    const [emphasis = ''] = emphasisEnd.exec(after) ?? [];
    yield emit(`${consume(emphasis)} `);
    return end + emphasis.length;
  }

  function* breakUp(index: number, original: string, apart: string): Generator<string, number> {
    consume(original);
    yield emit(apart);
    return index + original.length;
  }

  function incompleteLength(text: string, from: number): number {
    const end = text.slice(Math.max(from, text.length - longestIncompleteSyntax));
    const before = line.slice(-1);
    return Math.min(
      incompleteSyntax.exec((before + end).slice(-longestIncompleteSyntax))?.[0].length ?? 0,
      text.length - from,
    );
  }

  function filterPiece(piece: string, isEnd: boolean): string {
    return [...rewrite(held + piece, isEnd)].join('');
  }

  return {
    add: (piece: string): string => filterPiece(piece, false),
    end: (): string => filterPiece('', true),
    removedCount: (): number => removedCount,
  };
}

/** True for a numbered source such as `[1]` within a line, which Markdown does not read as a link definition. */
function isNumberedSource(line: string): boolean {
  const source = line.lastIndexOf('[');
  if (source < 0 || !/^\[\d[\d, ]*$/.test(line.slice(source))) return false;
  const before = line.slice(0, source);
  const lineBreak = Math.max(before.lastIndexOf('\n'), before.lastIndexOf('\r'));
  return /[^\s>*+\-.)\d]/.test(before.slice(lineBreak + 1));
}
