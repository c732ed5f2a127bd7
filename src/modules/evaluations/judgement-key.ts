import { createHash } from 'node:crypto';
import { cacheKeyText, type JudgeTask } from '#src/domain/judging/judgement.ts';

/** By what the verdict on a task is found again; 32 bytes. */
export function judgementKey(task: JudgeTask, evaluatorModel: string): Buffer {
  return createHash('sha256').update(cacheKeyText(task, evaluatorModel)).digest();
}
