import { isUuid } from './uuid.ts';

export type ReembedWish = { orgId: string } & (
  | { act: 'start'; model: string }
  | { act: 'pause' | 'resume' | 'status' }
);

const USE = 'npm run admin -- reembed <organization id> --model <id> | --pause | --resume | --status';

/** What the arguments after `reembed` ask for; in words, what is wrong with them. */
export function readReembedWish(args: readonly string[]): ReembedWish | { wrong: string } {
  const [orgId, flag, model, ...more] = args;
  if (orgId === undefined || orgId.startsWith('-')) return { wrong: `The organization's id is missing: ${USE}` };
  if (!isUuid(orgId)) {
    return { wrong: `"${orgId}" is no organization's id, which is a UUID: org_id in the answer to a sign-in.` };
  }
  const of = { orgId: orgId.toLowerCase() };
  if (flag === '--model' && model === undefined) return { wrong: `--model needs a model's id, of GET /models: ${USE}` };
  if (flag === '--model' && model && more.length === 0) return { ...of, act: 'start', model };
  const act = (['pause', 'resume', 'status'] as const).find((word) => flag === `--${word}`);
  if (act !== undefined && model === undefined) return { ...of, act };
  return { wrong: `${flag === undefined ? 'What to do is missing' : 'That is not understood'}: ${USE}` };
}
