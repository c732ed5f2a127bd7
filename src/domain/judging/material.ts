import { visibleText } from '../context-blocks.ts';
import { withoutRoleTokens } from '../role-tokens.ts';
import { isCharacterBoundary, type TokenCounter } from '../tokens.ts';
import { isReference } from './axes.ts';
import type { JudgeTask } from './judgement.ts';

/** Of each text; a longer one is shown by its beginning and its end. */
export const maxTextCharacters = 24_000;
/** Of what is left of a text, how much is its beginning. */
const headShare = 2 / 3;

/** A text as the judge reads it: what it is, and the text itself. */
export type Exhibit = { title: string; text: string };

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
export function readable({ title, text }: Exhibit): Exhibit {
  return { title, text: shortened(withoutRoleTokens(visibleText(text)), maxTextCharacters) };
}

/**
 * The texts within so many tokens together. Short ones stay whole: what they leave of their share goes to the others.
 */
export function fitExhibits(exhibits: readonly Exhibit[], tokens: number, counter: TokenCounter): Exhibit[] {
  const counts = exhibits.map(({ text }) => counter.count(text));
  const share = fairShare(counts, tokens);
  return exhibits.map(({ title, text }, index) => {
    const count = counts[index] ?? 0;
    return { title, text: count <= share ? text : shortenedToTokens(text, share, counter) };
  });
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

function shortenedToTokens(text: string, tokens: number, counter: TokenCounter): string {
  let limit = text.length;
  let fitting = text;
  for (let count = counter.count(text); count > tokens && limit > 0; count = counter.count(fitting)) {
    limit = Math.floor(limit * Math.min(0.9, tokens / count));
    fitting = shortened(text, limit);
  }
  return fitting;
}

/** The beginning and the end of a text with at most so many characters of it, and a word on what is missing. */
export function shortened(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  let head = Math.floor(maxCharacters * headShare);
  let tail = text.length - (maxCharacters - head);
  while (head > 0 && !isCharacterBoundary(text, head)) head -= 1;
  while (tail < text.length && !isCharacterBoundary(text, tail)) tail += 1;
  return `${text.slice(0, head)}\n[… ${tail - head} characters left out …]\n${text.slice(tail)}`;
}
