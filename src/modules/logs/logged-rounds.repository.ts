import type { Knex } from 'knex';
import { double, integer, type Row, text } from '#src/adapters/postgres/columns.ts';
import { firstRow, rows, shape } from '#src/adapters/postgres/shapes.ts';
import { type Actor, keysOf } from '#src/domain/access/visibility.ts';
import type { EchoState } from '#src/domain/alignment/fold.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';
import { type LoggedRound, loggedRound, type RoundPage } from './logs.model.ts';

/** A scored round, as the curve of a chat shows it. */
const trendPoint = shape({ round: integer(), ewma: double(), state: text<EchoState>() });
export type TrendPoint = Row<typeof trendPoint>;

const sized = shape({ round: integer(), bytes: integer() });
const columns = Object.keys(loggedRound.columns);

/** Texts of more are not read into the memory at once, but for those of a single round. */
const pageBytes = 4 * 1024 * 1024;

/** The round with which a page is full. */
function endOfPage(sizes: readonly Row<typeof sized>[]): number | undefined {
  let bytes = 0;
  const full = sizes.find((size) => {
    bytes += size.bytes;
    return bytes >= pageBytes;
  });
  return (full ?? sizes.at(-1))?.round;
}

/** Rounds of a chat; but for those of a list it is for the caller to know that he may read it. */
export function createLoggedRoundsRepository(db: Knex) {
  const rounds = (chatId: string) => RoundModel.table(db).where({ chatId });

  return {
    /**
     * Those after a round, in order: `limit` of them, or fewer where their texts are long. None where the reader may not
     * read the chat any more.
     */
    async list(actor: Actor, chatId: string, { after, limit }: { after: number; limit: number }): Promise<RoundPage> {
      const chat = ChatModel.table(db)
        .where({ orgId: actor.orgId, id: chatId })
        .whereRaw('acl && ?::text[]', [keysOf(actor)]);
      const following = rounds(chatId).whereExists(chat).where('round', '>', after).orderBy('round');
      const bytes = db.raw('octet_length(user_content) + coalesce(octet_length(assistant_reply), 0) as bytes');
      const first = following.clone().limit(limit + 1);
      const sizes = await rows(db, sized, first.select('round', bytes));
      const last = endOfPage(sizes.slice(0, limit));
      if (last === undefined) return { items: [], last: null };
      const items = await rows(db, loggedRound, following.where('round', '<=', last).select(columns));
      return { items, last: last === sizes.at(-1)?.round ? null : last };
    },

    async find(chatId: string, round: number): Promise<LoggedRound | undefined> {
      return firstRow(db, loggedRound, rounds(chatId).where({ round }).select(columns));
    },

    /** The newest `limit` of the scored rounds, in order. */
    async listTrend(chatId: string, limit: number): Promise<TrendPoint[]> {
      const newest = rounds(chatId)
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .limit(limit)
        .select('round', 'ewma', 'echoState as state');
      return (await rows(db, trendPoint, newest)).reverse();
    },
  };
}
