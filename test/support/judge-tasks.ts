import type { JudgeCallInput, ReplyPairToJudge, ReplyToJudge } from '#src/domain/judging/judgement.ts';
import type { JudgeRubricAxis } from '#src/domain/judging/rubric.ts';
import type { ModelRequest } from '#src/ports/models.ts';

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

export function anchoredTask(material: Partial<ReplyToJudge> = {}, sample = 1, axis: JudgeRubricAxis = 'relevance') {
  return { mode: 'anchored' as const, axis, sample, material: { ...replied, ...material } };
}

export function pairTask(a: string, b: string, material: Partial<ReplyPairToJudge> = {}) {
  const { persona, input, expected } = replied;
  const pair: ReplyPairToJudge = {
    ...{ kind: 'pair', input, expected },
    a: { persona, reply: a },
    b: { persona, reply: b },
    ...material,
  };
  return { mode: 'pairwise' as const, axis: 'relevance' as const, material: pair };
}

/** A valid answer in the requested form. */
export function verdictFor(
  { responseSchema }: Pick<ModelRequest, 'responseSchema'>,
  { score = 3, winner = 'A' } = {},
): string {
  const rationale = 'It says what it should.';
  const { properties } = responseSchema?.schema ?? {};
  if (JSON.stringify(properties).includes('winner')) return JSON.stringify({ rationale, winner });
  const [, axes] = /"axis":\{"type":"string","enum":(\[[^\]]*\])/.exec(JSON.stringify(properties)) ?? [];
  if (axes === undefined) {
    const flaw =
      score === 5 ? { weakness: 'Nothing to add.', severity: 'none' } : { weakness: 'Short.', severity: 'structural' };
    return JSON.stringify({ rationale, ...flaw, score });
  }
  const names = JSON.parse(axes) as string[];
  return JSON.stringify({ scores: names.map((axis) => ({ axis, rationale, score })) });
}
