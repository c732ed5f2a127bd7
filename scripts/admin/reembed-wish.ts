export type ReembedWish = { orgId: string } & (
  | { act: 'start'; model: string }
  | { act: 'pause' | 'resume' | 'status' }
);

/** `reembed <organization id> --model <id> | --pause | --resume | --status`; undefined for anything else. */
export function readReembedWish(args: readonly string[]): ReembedWish | undefined {
  const [orgId = '', flag = '', model] = args;
  if (!/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(orgId)) return undefined;
  if (flag === '--model' && model && args.length === 3) return { orgId: orgId.toLowerCase(), act: 'start', model };
  const act = (['pause', 'resume', 'status'] as const).find((word) => flag === `--${word}`);
  return act === undefined || args.length !== 2 ? undefined : { orgId: orgId.toLowerCase(), act };
}
