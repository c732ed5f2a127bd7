import { isUuid } from './uuid.ts';

/** `orgId` null: of all organizations. */
export type RescoreWish = { orgId: string | null; act: 'start' | 'status' };

const USE = 'npm run admin -- rescore --all | <organization id> [--status]';

/** What the arguments after `rescore` ask for; in words, what is wrong with them. */
export function readRescoreWish(args: readonly string[]): RescoreWish | { wrong: string } {
  const [whose, flag, ...more] = args;
  if (whose === undefined) return { wrong: `Whose chats is missing: ${USE}` };
  if (whose !== '--all' && !isUuid(whose)) {
    return { wrong: `"${whose}" is no organization's id, which is a UUID: org_id in the answer to a sign-in. ${USE}` };
  }
  if (more.length > 0 || (flag !== undefined && flag !== '--status'))
    return { wrong: `That is not understood: ${USE}` };
  return { orgId: whose === '--all' ? null : whose.toLowerCase(), act: flag === undefined ? 'start' : 'status' };
}
