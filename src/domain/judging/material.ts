import { sanitizeForPrompt } from '../chat/context-blocks.ts';
import { isCharacterBoundaryInText, type TokenCounter } from '../text/tokens.ts';
import type { JudgeCallInput } from './judgement.ts';
import { hasReferenceAnswer } from './rubric.ts';

const maxTextCharacters = 24_000;
const headShare = 2 / 3;

/** Minimum number of tokens to which a text may be shortened; the judge could not grade a shorter one. */
const minTokens = 200;

/** A text for the judge. `leftOut` is the number of characters removed from its middle. */
export type TextForJudge = { title: string; text: string; leftOut: number };

type Text = Pick<TextForJudge, 'title' | 'text'>;

export function textsForJudge({ material }: JudgeCallInput): TextForJudge[] {
  if (material.kind === 'prompt') {
    const { agentName, tags, agentPrompt } = material;
    const head = [`Name: ${agentName.trim() || '(none)'}`, `Tags: ${tags.join(', ') || '(none)'}`];
    return [{ title: 'The prompt of the agent', text: [...head, '', agentPrompt].join('\n') }].map(toTextForJudge);
  }
  const request = { title: 'The request', text: material.input };
  const reference = hasReferenceAnswer(material.expected) ? [{ title: 'The reference', text: material.expected }] : [];
  if (material.kind === 'reply') {
    const persona = { title: 'The persona of the agent', text: material.persona };
    return [persona, request, ...reference, { title: 'The reply', text: material.reply }].map(toTextForJudge);
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
  return [...personas, request, ...reference, ...replies].map(toTextForJudge);
}

export function toTextForJudge({ title, text }: Text): TextForJudge {
  return { title, ...removeMiddleOfText(sanitizeForPrompt(text), maxTextCharacters) };
}

/**
 * Shortens the texts of a judge call to a common token budget. Short texts stay whole and leave their unused share to
 * the others.
 * @returns null if too little would be left of a text
 */
export function fitTextsForJudge(
  exhibits: readonly TextForJudge[],
  tokens: number,
  counter: TokenCounter,
): TextForJudge[] | null {
  const counts = exhibits.map(({ text }) => counter.count(text));
  const share = fairShare(counts, tokens);
  if (share < minTokens) return null;
  return exhibits.map((exhibit, index) =>
    (counts[index] ?? 0) <= share ? exhibit : shortenedToTokens(exhibit, share, counter),
  );
}

/** Max-min fair share of a token budget: the largest share per text if none gets more than it needs. */
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

function shortenedToTokens(exhibit: TextForJudge, tokens: number, counter: TokenCounter): TextForJudge {
  let limit = exhibit.text.length;
  let fitting: Pick<TextForJudge, 'text' | 'leftOut'> = { text: exhibit.text, leftOut: 0 };
  for (let count = counter.count(fitting.text); count > tokens && limit > 0; count = counter.count(fitting.text)) {
    limit = Math.floor(limit * Math.min(0.9, tokens / count));
    fitting = removeMiddleOfText(exhibit.text, limit);
  }
  return { title: exhibit.title, text: fitting.text, leftOut: exhibit.leftOut + fitting.leftOut };
}

export function removeMiddleOfText(text: string, maxCharacters: number): Pick<TextForJudge, 'text' | 'leftOut'> {
  if (text.length <= maxCharacters) return { text, leftOut: 0 };
  let head = Math.floor(maxCharacters * headShare);
  let tail = text.length - (maxCharacters - head);
  while (head > 0 && !isCharacterBoundaryInText(text, head)) head -= 1;
  while (tail < text.length && !isCharacterBoundaryInText(text, tail)) tail += 1;
  return { text: `${text.slice(0, head)}\n[…]\n${text.slice(tail)}`, leftOut: tail - head };
}
