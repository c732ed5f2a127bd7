import type { JudgeCallInput, ReplyPairToJudge, ReplyToJudge } from '#src/domain/judging/judgement.ts';
import type { JudgeRubricAxis } from '#src/domain/judging/rubric.ts';
import type { ModelRequest } from '#src/ports/models.ts';
import type { Behaviour, ChatRequest } from './scripted-model.ts';

const replied: ReplyToJudge = {
  kind: 'reply',
  persona: 'You help with loans. Answer in one sentence.',
  input: 'What is the fee?',
  expected: null,
  reply: 'The fee is one percent.',
};

export function replyTask(material: Partial<ReplyToJudge> = {}): JudgeCallInput & { mode: 'plain' } {
  return { mode: 'plain', material: { ...replied, ...material } };
}

export function promptTask(agentPrompt: string): JudgeCallInput & { mode: 'plain' } {
  return { mode: 'plain', material: { kind: 'prompt', agentName: 'Lena', agentPrompt, tags: ['loans'] } };
}

export const anchoredTask = (
  material: Partial<ReplyToJudge> = {},
  sample = 1,
  axis: JudgeRubricAxis = 'relevance',
) => ({ mode: 'anchored' as const, axis, sample, material: { ...replied, ...material } });

export function pairTask(a: string, b: string, material: Partial<ReplyPairToJudge> = {}) {
  const { persona, input, expected } = replied;
  const replies = { a: { persona, reply: a }, b: { persona, reply: b } };
  const pair: ReplyPairToJudge = { kind: 'pair', input, expected, ...replies, ...material };
  return { mode: 'pairwise' as const, axis: 'relevance' as const, material: pair };
}

export function verdictFor(
  { responseSchema }: Pick<ModelRequest, 'responseSchema'>,
  { score = 3, winner = 'A' } = {},
): string {
  const rationale = 'It says what it should.';
  const { properties } = responseSchema?.schema ?? {};
  if (JSON.stringify(properties).includes('winner')) return JSON.stringify({ rationale, winner });
  const [, axes] = /"axis":\{"type":"string","enum":(\[[^\]]*\])/.exec(JSON.stringify(properties)) ?? [];
  if (axes === undefined) {
    const [weakness, severity] = score === 5 ? ['Nothing to add.', 'none'] : ['Short.', 'structural'];
    return JSON.stringify({ rationale, weakness, severity, score });
  }
  const names = JSON.parse(axes) as string[];
  return JSON.stringify({ scores: names.map((axis) => ({ axis, rationale, score })) });
}

export type Verdict = { score?: number; winner?: string };

/** Matches requests to a judge; the others are replies to cases. */
export const isForJudge = (request: ChatRequest): boolean => request.response_format !== undefined;

/** Replies to cases with a text of their own, and returns valid verdicts; waits for `until`. */
export function judgeWell(
  verdict: (request: ChatRequest) => Verdict = () => ({}),
  until: Promise<unknown> = Promise.resolve(),
): (request: ChatRequest) => Behaviour {
  return (request) => {
    const text = isForJudge(request) ? verdictText(request, verdict(request)) : answerTo(request);
    return { kind: 'answer', text, until };
  };
}

export const verdictText = ({ response_format }: ChatRequest, verdict: Verdict = {}): string =>
  verdictFor({ responseSchema: Object(response_format).json_schema }, verdict);

const answerTo = ({ messages }: ChatRequest): string =>
  `An answer to ${messages.at(-1)?.content} by ${messages[0]?.content}`;
