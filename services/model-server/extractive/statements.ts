import { splitAtSpaces } from '../split-at-spaces.ts';

/** A unit of a passage that can be quoted alone: a sentence, a list item, a field or a table row. */
export type Statement = {
  text: string;
  /** The text after its heading, as compared with a question. */
  context: string;
  /** Whether the statement is a title or a question: it names a subject without an answer. */
  isTopic: boolean;
};

type Paragraph = { kind: 'heading' | 'table' | 'text'; lines: string[] };

const MARKDOWN_HEADING = /^(?:#{1,6}\s+|(?=\*\*[^*]+\*\*:?$|__[^_]+__:?$))/;
const LIST_MARK = /^(?:[-*+•]|\d{1,3}[.)])\s+/;
const RULE = /^[\s=_*~-]{3,}$/;
const TABLE_DELIMITER = /^\|(?=.*-)[\s:|-]+$/;
const LINK = /!?\[([^[\]]*)\]\((?:[^()]|\([^()]*\))*\)/g;
const REFERENCE = /(?<=\S)\[\d+(?:\s*,\s*\d+)*\]/g;
/** Matches other bracketed numbers, such as the range [0, 1], which would be mistaken for citations of passages. */
const BRACKETED_NUMBERS = /\[(\d+(?:\s*,\s*\d+)*)\]/g;
/** Matches a URL, also a fragment of one that was broken into lines. */
const ADDRESS_MARK = /https?:|www\.|:\/\/|\.[a-z]{2,6}\/|\.html?\b/i;
const MIN_PATH_CHARACTERS = 20;
const SENTENCE_END = /[.!?:;]["')\]]*$/;
const FIELD = /^[^:]+:\s+\S/;
/** A line of at least this length continues in the next one; a shorter line is a title, a field or a table row. */
const MIN_WRAPPED_CHARACTERS = 60;
/** In running text most words begin in lower case; titles and table headers are capitalized. */
const MIN_SMALL_WORDS_SHARE = 0.5;
const MAX_TITLE_CHARACTERS = 80;
/** Text without punctuation is split at this length, which no quotable sentence exceeds. */
const MAX_STATEMENT_CHARACTERS = 500;

const segmenter = new Intl.Segmenter('en', { granularity: 'sentence' });
/** Abbreviations after which `Intl.Segmenter` wrongly ends a sentence, such as "Mr." and "11 U.S.C. § 101". */
const ABBREVIATION = /(?:^|[\s.(])(?:\p{L}|mr|mrs|ms|dr|st|no|fig|cf|vs|inc|ltd)\.\s*$/iu;

export function splitIntoStatements(passage: string): Statement[] {
  const statements: Statement[] = [];
  let heading = '';
  const add = (text: string, { isTopic = false, header = '' } = {}): void => {
    if (!/[\p{L}\p{N}]/u.test(text) || isAddress(text)) return;
    statements.push({ text, context: [heading, header, text].filter(Boolean).join('. '), isTopic });
  };

  for (const { kind, lines } of paragraphsOf(passage.replace(REFERENCE, '').replace(BRACKETED_NUMBERS, '[ $1 ]'))) {
    const text = plainText(lines.join(' '));
    if (kind === 'heading') {
      heading = text;
    } else if (kind === 'table') {
      const { header, rows } = readTable(lines);
      for (const row of rows) add(row, { header });
    } else if (isTitle(text)) {
      // In plain text a title looks like any short line, so it stays quotable.
      heading = '';
      add(text, { isTopic: true });
      heading = text.replace(/:$/, '');
    } else {
      for (const sentence of sentencesOf(text)) add(sentence, { isTopic: sentence.endsWith('?') });
    }
  }
  return statements.length === 0 && heading ? [{ text: heading, context: heading, isTopic: true }] : statements;
}

/** Whether a text is a URL or an entry of a link list. A labelled field may have a URL as its value. */
function isAddress(text: string): boolean {
  const tokens = text.split(' ');
  const others = tokens.filter(
    (token) => !ADDRESS_MARK.test(token) && !(token.length >= MIN_PATH_CHARACTERS && token.includes('/')),
  );
  if (others.length === tokens.length || /^[\p{L} ]{1,40}: \S+$/u.test(text)) return false;
  return (others.join(' ').match(/\p{L}{2,}/gu) ?? []).length < 3;
}

function paragraphsOf(passage: string): Paragraph[] {
  const paragraphs: Paragraph[] = [];
  let open: Paragraph | undefined;
  for (const raw of passage.split('\n')) {
    const line = raw.trim();
    if (line === '' || RULE.test(line)) {
      open = undefined;
      continue;
    }
    const kind = MARKDOWN_HEADING.test(line) ? 'heading' : line.startsWith('|') ? 'table' : 'text';
    if (open?.kind === kind && (kind === 'table' || (kind === 'text' && continues(open.lines, line)))) {
      open.lines.push(line);
    } else {
      open = { kind, lines: [line] };
      paragraphs.push(open);
    }
  }
  return paragraphs;
}

function continues(before: string[], line: string): boolean {
  const last = before.at(-1) ?? '';
  if (LIST_MARK.test(line)) return false;
  return /^\p{Ll}/u.test(line) || (isRunningText(last) && !SENTENCE_END.test(last));
}

function isRunningText(line: string): boolean {
  const words = line.match(/\p{L}+/gu) ?? [];
  const smallWords = words.filter((word) => /^\p{Ll}/u.test(word));
  return line.length >= MIN_WRAPPED_CHARACTERS && smallWords.length >= words.length * MIN_SMALL_WORDS_SHARE;
}

function isTitle(text: string): boolean {
  if (text.length > MAX_TITLE_CHARACTERS || /\d|[.!?;]$/.test(text) || FIELD.test(text)) return false;
  const longWords = text.match(/\p{L}{4,}/gu) ?? [];
  return longWords.length > 0 && longWords.every((word) => /^\p{Lu}/u.test(word));
}

/**
 * Reads a table. Rows of two cells become a field and its value. In longer rows each cell follows its column name, so
 * that a row is understood alone; `header` is then empty.
 */
function readTable(lines: string[]): { header: string; rows: string[] } {
  const hasHeader = TABLE_DELIMITER.test(lines[1] ?? '');
  const rows = lines.filter((line) => !TABLE_DELIMITER.test(line)).map(cellsOf);
  const names = hasHeader ? (rows.shift() ?? []) : [];
  const header = names.filter(Boolean).join(', ');
  if (rows.length === 0) return { header: '', rows: [header] };
  if (rows.every((cells) => cells.length <= 2)) {
    return { header, rows: rows.map((cells) => cells.filter(Boolean).join(': ')) };
  }
  const name = (cell: string, column: number) => (cell && names[column] ? `${names[column]}: ${cell}` : cell);
  return { header: '', rows: rows.map((cells) => cells.map(name).filter(Boolean).join('; ')) };
}

function cellsOf(row: string): string[] {
  const cells = row.replace(/^\||\|$/g, '').split(/(?<!\\)\|/);
  return cells.map(plainText);
}

function sentencesOf(text: string): string[] {
  const sentences: string[] = [];
  let open = '';
  for (const { segment } of segmenter.segment(text)) {
    open += segment;
    if (ABBREVIATION.test(segment)) continue;
    sentences.push(...splitAtSpaces(open, MAX_STATEMENT_CHARACTERS));
    open = '';
  }
  return [...sentences, open].map((sentence) => sentence.trim()).filter(Boolean);
}

function plainText(markdown: string): string {
  return markdown
    .replace(MARKDOWN_HEADING, '')
    .replace(LIST_MARK, '')
    .replace(LINK, '$1')
    .replace(/\*\*|__|`/g, '')
    .replace(/\\([\p{P}\p{S}])/gu, '$1')
    .replace(/\s+/g, ' ')
    .trim();
}
