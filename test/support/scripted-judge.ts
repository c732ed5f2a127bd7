import { verdictFor } from './judge-tasks.ts';
import type { Behaviour, ChatRequest } from './scripted-model.ts';

export type Verdict = { score?: number; winner?: string };

/** Matches requests to a judge; the others are replies to cases. */
export function isForJudge(request: ChatRequest): boolean {
  return request.response_format !== undefined;
}

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

/** An answer that fits the schema of a request. */
export function verdictText({ response_format }: ChatRequest, verdict: Verdict = {}): string {
  return verdictFor({ responseSchema: Object(response_format).json_schema }, verdict);
}

function answerTo({ messages }: ChatRequest): string {
  return `An answer to ${messages.at(-1)?.content} by ${messages[0]?.content}`;
}
