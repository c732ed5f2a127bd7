import type { Container } from '#src/container.ts';
import type { ReembedWish } from './reembed-wish.ts';

/** Begins, pauses, resumes, or tells how far it is. @returns whether what was asked for is so now */
export async function reembed(
  { reembedding }: Pick<Container, 'reembedding'>,
  wish: ReembedWish,
  print: (line: string) => void,
): Promise<boolean> {
  if (wish.act === 'start') {
    print(`Begun: the job ${await reembedding.start(wish)}.`);
    return true;
  }
  if (wish.act === 'status') return tellStatus({ reembedding }, wish.orgId, print);
  const result = await reembedding.setPaused(wish, wish.act === 'pause');
  print(answers[result][wish.act]);
  return result !== 'gone';
}

const answers = {
  done: { pause: 'Paused: what is under way goes on.', resume: 'It goes on.' },
  unchanged: { pause: 'It is paused already.', resume: 'It is not paused.' },
  gone: { pause: 'It is not running.', resume: 'It is not running.' },
} as const;

async function tellStatus(
  { reembedding }: Pick<Container, 'reembedding'>,
  orgId: string,
  print: (line: string) => void,
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
