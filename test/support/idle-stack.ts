import type { Knex } from 'knex';
import type { Member } from './client.ts';
import { type ScriptedModel, startScriptedModel } from './scripted-model.ts';
import { type Stack, startStack } from './stack.ts';

export type IdleStack = Stack & { db: Knex; ada: Member; model: ScriptedModel };

/**
 * For a suite: a stack without workers, so that only its tests run activities. It is empty until `before` has run.
 * @param script prepares a scripted model; without it, the shared model server answers and there is no `model`
 */
export function useIdleStack(
  settings: Record<string, string> = {},
  script?: (model: ScriptedModel) => unknown,
): IdleStack {
  const idle: Partial<IdleStack> = {};
  before(async () => {
    if (script !== undefined) {
      idle.model = await startScriptedModel();
      script(idle.model);
    }
    const baseUrl = idle.model?.baseUrl;
    const models = baseUrl && { OPENAI_BASE_URL: baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: baseUrl };
    const own = await startStack({ ...models, ...settings }, { workers: false });
    Object.assign(idle, own, { db: own.container.db, ada: await own.signUp() });
  });
  after(async () => {
    await idle.close?.();
    await idle.model?.close();
  });
  return idle as IdleStack;
}
