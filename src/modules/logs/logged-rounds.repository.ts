import type { EchoState } from '#src/domain/alignment-fold.ts';
import { type Actor, keysOf } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { LoggedRound, RoundPage } from './logs.model.ts';

const columns = [
  'round',
  'status',
  'errorCode',
  'model',
  'userContent',
  'assistantReply',
  'startedAt',
  'latencyMs',
  'inputTokens',
  'completionTokens',
  'costUsd',
  'scoredAt',
  'echoState',
  'ewma',
  'alignmentScore',
  'foldState',
  'answerEvents',
  'events',
] as const;

/** A scored round, as the curve of a chat shows it. */
export type TrendPoint = { round: number; ewma: number; state: EchoState };

type Sized = { round: number; bytes: number };

/** Texts of more are not read into the memory at once, but for those of a single round. */
const pageBytes = 4 * 1024 * 1024;

/** The round with which a page is full. */
function endOfPage(sizes: readonly Sized[]): number | undefined {
  let bytes = 0;
  const full = sizes.find((size) => {
    bytes += size.bytes;
    return bytes >= pageBytes;
  });
  return (full ?? sizes.at(-1))?.round;
}

/** Rounds of a chat; but for those of a list it is for the caller to know that he may read it. */
export function createLoggedRoundsRepository(db: Db) {
  const rounds = (chatId: string) => db<LoggedRound & { chatId: string }>('rounds').where({ chatId });

  return {
    /**
     * Those after a round, in order: `limit` of them, or fewer where their texts are long. None where the reader may not
     * read the chat any more.
     */
    async list(actor: Actor, chatId: string, { after, limit }: { after: number; limit: number }): Promise<RoundPage> {
      const chat = db('chats')
        .where({ orgId: actor.orgId, id: chatId })
        .whereRaw('acl && ?::text[]', [keysOf(actor)]);
      const following = rounds(chatId).whereExists(chat).where('round', '>', after).orderBy('round');
      const bytes = db.raw('octet_length(user_content) + coalesce(octet_length(assistant_reply), 0) as bytes');
      const sizes: Sized[] = await following
        .clone()
        .limit(limit + 1)
        .select('round', bytes);
      const last = endOfPage(sizes.slice(0, limit));
      if (last === undefined) return { items: [], last: null };
      const items = await following.where('round', '<=', last).select(...columns);
      return { items, last: last === sizes.at(-1)?.round ? null : last };
    },

    async find(chatId: string, round: number): Promise<LoggedRound | undefined> {
      return rounds(chatId)
        .where({ round })
        .first(...columns);
    },

    /** The newest `limit` of the scored rounds, in order. */
    async listTrend(chatId: string, limit: number): Promise<TrendPoint[]> {
      const points = await db('rounds')
        .where({ chatId })
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .limit(limit)
        .select<TrendPoint[]>('round', 'ewma', 'echoState as state');
      return points.reverse();
    },
  };
}
