import type { Container } from '#src/container.ts';
import { type Command, type CommandOutput, isUuid, unexpectedArguments, type WrongArguments } from './command.ts';

const USAGE = '<organization id> --model <id> | --pause | --resume | --status';

export const reembedCommand: Command = {
  usage: USAGE,
  description: 'embeds all documents of an organization with another model',
  examples: [
    ['01a20286-f472-72a2-a9c9-368f38795a17 --model text-embedding-3-small', 'starts it'],
    ['01a20286-f472-72a2-a9c9-368f38795a17 --status', 'shows the progress'],
  ],
  read: (args) => {
    const request = readReembedArguments(args);
    return 'wrong' in request ? request : (container, { print }) => run(container, request, print);
  },
};

type ReembedRequest = { orgId: string } & ({ act: 'start'; model: string } | { act: 'pause' | 'resume' | 'status' });

export function readReembedArguments(args: readonly string[]): ReembedRequest | WrongArguments {
  const [orgId, flag, model, ...more] = args;
  const use = `npm run admin -- reembed ${USAGE}`;
  if (orgId === undefined || orgId.startsWith('-')) return { wrong: `The organization id is missing: ${use}` };
  if (!isUuid(orgId)) {
    return { wrong: `"${orgId}" is not an organization id, which is a UUID: org_id in the response to a sign-in.` };
  }
  const of = { orgId: orgId.toLowerCase() };
  if (flag === '--model' && model === undefined)
    return { wrong: `--model needs the id of a model, see GET /models: ${use}` };
  if (flag === '--model' && model && more.length === 0) return { ...of, act: 'start', model };
  const act = (['pause', 'resume', 'status'] as const).find((word) => flag === `--${word}`);
  if (act !== undefined && model === undefined) return { ...of, act };
  const wrong = flag === undefined ? 'A flag is missing' : unexpectedArguments(args.slice(1)).wrong;
  return { wrong: `${wrong}: ${use}` };
}

async function run(
  { reembedding }: Pick<Container, 'reembedding'>,
  request: ReembedRequest,
  print: CommandOutput['print'],
): Promise<boolean> {
  if (request.act === 'start') {
    print(`Started job ${await reembedding.start(request)}.`);
    return true;
  }
  if (request.act === 'status') return printStatus({ reembedding }, request.orgId, print);
  const result = await reembedding.setPaused(request, request.act === 'pause');
  print(answers[result][request.act]);
  return result !== 'gone';
}

const answers = {
  done: { pause: 'Paused: ingestions that have started continue.', resume: 'Resumed.' },
  unchanged: { pause: 'The job is paused already.', resume: 'The job is not paused.' },
  gone: { pause: 'The job is not running.', resume: 'The job is not running.' },
} as const;

async function printStatus(
  { reembedding }: Pick<Container, 'reembedding'>,
  orgId: string,
  print: CommandOutput['print'],
): Promise<boolean> {
  const job = await reembedding.findJob({ orgId });
  if (job === undefined) {
    print('The organization was never re-embedded.');
    return false;
  }
  const { id, status, stage, progressDone, progressTotal, errorCode, errorMessage } = job;
  print(
    `${id}: ${status}${stage === 'paused' ? ', paused' : ''}, ${progressDone} of ${progressTotal ?? '?'} documents`,
  );
  if (errorCode !== null) print(`  ${errorCode}: ${errorMessage}`);
  return true;
}
