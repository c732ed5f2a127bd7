import { asMaterial } from '../context-blocks.ts';
import { isCharacterBoundary, type TokenCounter } from '../tokens.ts';
import { isReference } from './axes.ts';
import type { JudgeTask } from './judgement.ts';

/** Of each text; a longer one is shown by its beginning and its end. */
export const maxTextCharacters = 24_000;
/** Of what is left of a text, how much is its beginning. */
const headShare = 2 / 3;

/** Who has read less of a text, where there is more of it, cannot grade it. */
const leastTokens = 200;

/** A text as the judge reads it: what it is, the text itself, and how many characters of its middle are left out. */
export type Exhibit = { title: string; text: string; leftOut: number };

type Text = Pick<Exhibit, 'title' | 'text'>;

/** All texts of a task, in the order in which they are read; what is graded stands last. */
export function exhibitsOf({ material }: JudgeTask): Exhibit[] {
  if (material.kind === 'prompt') {
    const { agentName, tags, agentPrompt } = material;
    const head = [`Name: ${agentName.trim() || '(none)'}`, `Tags: ${tags.join(', ') || '(none)'}`];
    return [{ title: 'The prompt of the agent', text: [...head, '', agentPrompt].join('\n') }].map(readable);
  }
  const request = { title: 'The request', text: material.input };
  const reference = isReference(material.expected) ? [{ title: 'The reference', text: material.expected }] : [];
  if (material.kind === 'reply') {
    const persona = { title: 'The persona of the agent', text: material.persona };
    return [persona, request, ...reference, { title: 'The reply', text: material.reply }].map(readable);
  }
  const { a, b } = material;
  const personas =
    a.persona === b.persona
      ? [{ title: 'The persona of both agents', text: a.persona }]
      : [
          { title: 'The persona behind reply A', text: a.persona },
          { title: 'The persona behind reply B', text: b.persona },
        ];
  const replies = [
    { title: 'Reply A', text: a.reply },
    { title: 'Reply B', text: b.reply },
  ];
  return [...personas, request, ...reference, ...replies].map(readable);
}

/** A text without marks of roles and without what nobody sees, within its limit. */
export function readable({ title, text }: Text): Exhibit {
  return { title, ...shortened(asMaterial(text), maxTextCharacters) };
}

/**
 * The texts within so many tokens together. Short ones stay whole: what they leave of their share goes to the others.
 * Null where too little would be left of those.
 */
export function fitExhibits(exhibits: readonly Exhibit[], tokens: number, counter: TokenCounter): Exhibit[] | null {
  const counts = exhibits.map(({ text }) => counter.count(text));
  const share = fairShare(counts, tokens);
  if (share < leastTokens) return null;
  return exhibits.map((exhibit, index) =>
    (counts[index] ?? 0) <= share ? exhibit : shortenedToTokens(exhibit, share, counter),
  );
}

/** The most that each may have when nobody gets more than it needs. */
function fairShare(needs: readonly number[], total: number): number {
  let left = total;
  let waiting = needs.length;
  for (const need of needs.toSorted((a, b) => a - b)) {
    const share = Math.floor(left / waiting);
    if (need > share) return Math.max(0, share);
    left -= need;
    waiting -= 1;
  }
  return Number.POSITIVE_INFINITY;
}

function shortenedToTokens(exhibit: Exhibit, tokens: number, counter: TokenCounter): Exhibit {
  let limit = exhibit.text.length;
  let fitting: Pick<Exhibit, 'text' | 'leftOut'> = { text: exhibit.text, leftOut: 0 };
  for (let count = counter.count(fitting.text); count > tokens && limit > 0; count = counter.count(fitting.text)) {
    limit = Math.floor(limit * Math.min(0.9, tokens / count));
    fitting = shortened(exhibit.text, limit);
  }
  return { title: exhibit.title, text: fitting.text, leftOut: exhibit.leftOut + fitting.leftOut };
}

/** The beginning and the end of a text, of which both together have at most so many characters. */
export function shortened(text: string, maxCharacters: number): Pick<Exhibit, 'text' | 'leftOut'> {
  if (text.length <= maxCharacters) return { text, leftOut: 0 };
  let head = Math.floor(maxCharacters * headShare);
  let tail = text.length - (maxCharacters - head);
  while (head > 0 && !isCharacterBoundary(text, head)) head -= 1;
  while (tail < text.length && !isCharacterBoundary(text, tail)) tail += 1;
  return { text: `${text.slice(0, head)}\n[…]\n${text.slice(tail)}`, leftOut: tail - head };
}
