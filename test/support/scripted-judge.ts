import { verdictFor } from './judge-tasks.ts';
import type { Behaviour, ChatRequest } from './scripted-model.ts';

export type Verdict = { score?: number; winner?: string };

/** What is asked of a judge; the others are cases. */
export function isForJudge(request: ChatRequest): boolean {
  return request.response_format !== undefined;
}

/** Answers cases, each by its own text and its persona, and judges by the book; not before `until`. */
export function judgeWell(
  verdict: (request: ChatRequest) => Verdict = () => ({}),
  until: Promise<unknown> = Promise.resolve(),
): (request: ChatRequest) => Behaviour {
  return (request) => {
    const text = isForJudge(request) ? verdictText(request, verdict(request)) : answerTo(request);
    return { kind: 'answer', text, until };
  };
}

/** Of the schema that a request asks for. */
export function verdictText({ response_format }: ChatRequest, verdict: Verdict = {}): string {
  return verdictFor({ responseSchema: Object(response_format).json_schema }, verdict);
}

function answerTo({ messages }: ChatRequest): string {
  return `An answer to ${messages.at(-1)?.content} by ${messages[0]?.content}`;
}
