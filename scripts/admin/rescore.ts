import { type Command, isUuid, unexpectedArguments, type WrongArguments } from './command.ts';

const USAGE = '--all | <organization id> [--status]';

export const rescoreCommand: Command = {
  usage: USAGE,
  description: 'queues chats for new scores that were scored with another calibration or without embeddings',
  examples: [['--all --status', 'shows how many chats are queued']],
  read: (args) => {
    const request = readRescoreArguments(args);
    if ('wrong' in request) return request;
    const { orgId, act } = request;
    return async ({ scoringRequests }, { print }) => {
      const queued =
        act === 'start' ? await scoringRequests.requestRescoring(orgId) : await scoringRequests.countRescoring(orgId);
      print(`Chats queued for new scores: ${queued}.`);
      return true;
    };
  },
};

type RescoreRequest = { orgId: string | null; act: 'start' | 'status' };

export function readRescoreArguments(args: readonly string[]): RescoreRequest | WrongArguments {
  const [organization, flag, ...more] = args;
  const use = `npm run admin -- rescore ${USAGE}`;
  if (organization === undefined) return { wrong: `An organization id or --all is missing: ${use}` };
  if (organization !== '--all' && !isUuid(organization)) {
    return {
      wrong: `"${organization}" is not an organization id, which is a UUID: org_id in the response to a sign-in. ${use}`,
    };
  }
  if (more.length > 0 || (flag !== undefined && flag !== '--status')) {
    return { wrong: `${unexpectedArguments([flag ?? '', ...more]).wrong}: ${use}` };
  }
  const orgId = organization === '--all' ? null : organization.toLowerCase();
  return { orgId, act: flag === undefined ? 'start' : 'status' };
}
