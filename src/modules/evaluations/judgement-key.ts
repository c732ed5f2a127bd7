import { createHash } from 'node:crypto';
import { cacheKeyText } from '#src/domain/judging/cache-key.ts';
import type { JudgeTask } from '#src/domain/judging/judgement.ts';

/** By what the verdict on a task is found again; 32 bytes. */
export function judgementKey(task: JudgeTask, evaluatorModel: string): Buffer {
  return createHash('sha256').update(cacheKeyText(task, evaluatorModel)).digest();
}
