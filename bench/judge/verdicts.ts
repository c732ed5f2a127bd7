import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { JudgeCallInput, WinningReply } from '../../src/domain/judging/judgement.ts';
import { AppError } from '../../src/errors.ts';
import { type EvaluationJudge, judgementCacheKey } from '../../src/modules/evaluations/judge.ts';
import type { ModelUsage } from '../../src/ports/models.ts';

export type Verdict = { key: string; winner: WinningReply; seconds: number; calls: number } & ModelUsage;

/** Caches verdicts in a file of JSON lines under the product's cache key, so that an interrupted run can resume. */
export function openVerdicts(path: string, judge: EvaluationJudge, model: string) {
  mkdirSync(dirname(path), { recursive: true });
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
  const known = new Map(lines.map((line) => JSON.parse(line) as Verdict).map((verdict) => [verdict.key, verdict]));

  /** A failed verdict (null) is not cached, so that the next run judges the pair again. */
  return async (task: JudgeCallInput): Promise<Verdict | null> => {
    const key = judgementCacheKey(task, model).toString('hex');
    const found = known.get(key);
    if (found !== undefined) return found;
    const startedAt = performance.now();
    try {
      const { judgement, usage, calls } = await judge(task, { model, signal: new AbortController().signal });
      if (judgement.mode !== 'pairwise')
        throw new Error(`The judge returned a verdict of mode ${judgement.mode} instead of pairwise.`);
      const seconds = (performance.now() - startedAt) / 1_000;
      const verdict = { key, winner: judgement.winner, seconds, calls, ...usage };
      appendFileSync(path, `${JSON.stringify(verdict)}\n`);
      return verdict;
    } catch (error) {
      if (error instanceof AppError && error.code === 'judge_response_invalid') return null;
      throw error;
    }
  };
}
