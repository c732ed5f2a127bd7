import { splitAtSpaces } from '../split-at-spaces.ts';

/** A unit of a passage that can be quoted alone: a sentence, a list item, a field or a table row. */
export type Statement = {
  text: string;
  /** The text after its heading, as compared with a question. */
  context: string;
  /** The text before it in the same section, which may name what the statement only calls "it". */
  before: string;
  /** Cells of a table row; its text is composed for the question. */
  fields?: Field[];
  /** Whether the statement is a title or a question: it names a subject without an answer. */
  isTopic: boolean;
};

/** A cell of a table row under the name of its column, which may be empty. */
export type Field = { name: string; value: string };

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
const RECORD_FIELD = /^([^:;|]{1,60}): (.+)$/;
/** A line of at least this length continues in the next one; a shorter line is a title, a field or a table row. */
const MIN_WRAPPED_CHARACTERS = 60;
/** In running text most words begin in lower case; titles and table headers are capitalized. */
const MIN_SMALL_WORDS_SHARE = 0.5;
const MAX_TITLE_CHARACTERS = 80;
/** A title may have a year, or a range of years such as 1997-98. */
const YEARS = /\b(?:19|20)\d\d(?:[-–/]\d{2,4})?\b/g;
/** Text without punctuation is split at this length, which no quotable sentence exceeds. */
const MAX_STATEMENT_CHARACTERS = 500;

/** Thai puts spaces between clauses and no full stop at the end of a sentence. */
const THAI = /[\p{scx=Thai}\p{scx=Laoo}]/u;
const MAX_CLAUSES_CHARACTERS = 200;

const segmenter = new Intl.Segmenter('en', { granularity: 'sentence' });
/** Abbreviations after which `Intl.Segmenter` wrongly ends a sentence, such as "Mr." and "11 U.S.C. § 101". */
const ABBREVIATION = /(?:^|[\s.(])(?:\p{L}|mr|mrs|ms|dr|st|no|fig|cf|vs|inc|ltd)\.\s*$/iu;

export function splitIntoStatements(passage: string): Statement[] {
  const statements: Statement[] = [];
  let heading = '';
  let before = '';
  const add = (text: string, { isTopic = false, fields }: { isTopic?: boolean; fields?: Field[] } = {}): void => {
    if (!/[\p{L}\p{N}]/u.test(text) || isAddress(text)) return;
    const context = [heading, text].filter(Boolean).join('. ');
    statements.push({ text, context, before, isTopic, ...(fields && { fields }) });
    before = fields ? '' : text;
  };
  const open = (title: string): void => {
    heading = title;
    before = '';
  };

  for (const { kind, lines } of paragraphsOf(passage.replace(REFERENCE, '').replace(BRACKETED_NUMBERS, '[ $1 ]'))) {
    const text = plainText(lines.join(' '));
    const record = kind === 'text' ? readRecord(text) : null;
    if (kind === 'heading') {
      open(text);
    } else if (kind === 'table') {
      for (const fields of readTable(lines)) add(textOfFields(fields), { fields });
    } else if (record) {
      add(text, { fields: record });
    } else if (isTitle(text)) {
      // In plain text a title looks like any short line, so it stays quotable.
      open('');
      add(text, { isTopic: true });
      open(text.replace(/:$/, ''));
    } else {
      for (const sentence of sentencesOf(text)) add(sentence, { isTopic: sentence.endsWith('?') });
    }
  }
  return statements.length === 0 && heading
    ? [{ text: heading, context: heading, before: '', isTopic: true }]
    : statements;
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
  const isSentence = /\d|[.!?;]$/.test(text.replace(YEARS, '')) || FIELD.test(text);
  if (text.length > MAX_TITLE_CHARACTERS || isSentence) return false;
  const longWords = text.match(/\p{L}{4,}/gu) ?? [];
  return longWords.length > 0 && longWords.every((word) => /^\p{Lu}/u.test(word));
}

/** Reads the rows of a table. A table without rows counts as a row without column names. */
function readTable(lines: string[]): Field[][] {
  const hasHeader = TABLE_DELIMITER.test(lines[1] ?? '');
  const rows = lines.filter((line) => !TABLE_DELIMITER.test(line)).map(cellsOf);
  const names = hasHeader && rows.length > 1 ? (rows.shift() ?? []) : [];
  return rows.map((cells) =>
    cells.map((value, column) => ({ name: names[column] ?? '', value })).filter(({ value }) => value !== ''),
  );
}

/** Reads a line such as `Order: 17; Customer: Ito; Total: 9.50`, as which the rows of large tables are written. */
function readRecord(line: string): Field[] | null {
  const fields = line.split('; ').map((part) => {
    const [, name = '', value = ''] = RECORD_FIELD.exec(part) ?? [];
    return { name, value };
  });
  return fields.length > 1 && fields.every(({ name }) => name !== '') ? fields : null;
}

function textOfFields(fields: readonly Field[]): string {
  return fields.map(({ name, value }) => (name === '' ? value : `${name}: ${value}`)).join('; ');
}

/**
 * Writes a table row as `Row – Column: value`.
 * @param isShown chooses the columns beside the first, which names the row
 */
export function textOfRow([first, ...others]: readonly Field[], isShown: (field: Field) => boolean): string {
  if (first === undefined) return '';
  const row = first.name !== '' && /^[\p{N}\p{P}]+$/u.test(first.value) ? `${first.name} ${first.value}` : first.value;
  const values = textOfFields(others.filter(isShown));
  if (values === '') return row;
  return others.some(({ name }) => name !== '') ? `${row} – ${values}` : `${row}: ${values}`;
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
    const length = THAI.test(open) ? MAX_CLAUSES_CHARACTERS : MAX_STATEMENT_CHARACTERS;
    sentences.push(...splitAtSpaces(open, length));
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
