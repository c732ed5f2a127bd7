import type { ListPosition } from '#src/contracts/list-position.ts';
import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { Db } from '#src/ports/database.ts';
import { createConversationsRepository } from './conversations.repository.ts';
import { headOf, type LogFormat, lineOf } from './log-export.ts';
import { createLogSumsRepository } from './log-sums.repository.ts';
import { createLoggedRoundsRepository } from './logged-rounds.repository.ts';
import type {
  LogFilter,
  LoggedAgent,
  LoggedChat,
  LoggedRound,
  LogSums,
  RecentChat,
  Session,
  SumsFilter,
} from './logs.model.ts';
import { drawTrend } from './trend-chart.ts';

/** Of an export: few enough to be held by many at a time, since a message may be long. */
const chatsAtOnce = 50;
const roundsAtOnce = 20;
/** A picture of more says nothing any more. */
const drawnRounds = 1_000;

type Page = { limit: number; after: ListPosition | null };

export type LogsService = ReturnType<typeof createLogsService>;

/** What has been said, and how it went: of the chats that the caller may read. */
export function createLogsService({ db }: { db: Db }) {
  const conversations = createConversationsRepository(db);
  const sums = createLogSumsRepository(db);
  const rounds = createLoggedRoundsRepository(db);

  async function count(actor: Actor, filter: LogFilter): Promise<number> {
    if (filter.words !== undefined) return conversations.countWithWords(actor, filter);
    const { chats } = await sums.sum(actor, filter);
    if (filter.state !== undefined) return chats[filter.state];
    return Object.values(chats).reduce((sum, ofState) => sum + ofState);
  }

  async function session(actor: Actor, chatId: string): Promise<Session> {
    const found = await conversations.find(actor, chatId);
    if (found === undefined) throw appError('chat_not_found');
    return found;
  }

  return {
    /** `total` is null unless it is asked for. */
    async list(
      actor: Actor,
      filter: LogFilter,
      page: Page & { includeTotal: boolean },
    ): Promise<{ items: LoggedChat[]; last: ListPosition | null; total: number | null }> {
      const [{ items, last }, total] = await Promise.all([
        conversations.list(actor, filter, page),
        page.includeTotal ? count(actor, filter) : null,
      ]);
      return { items, last, total };
    },

    stats: (actor: Actor, filter: SumsFilter): Promise<LogSums> => sums.sum(actor, filter),
    recent: (actor: Actor, of: { limit: number; mine: boolean }): Promise<RecentChat[]> =>
      conversations.listRecent(actor, of),
    agents: (actor: Actor): Promise<LoggedAgent[]> => conversations.listAgents(actor),

    /** A chat with a page of its rounds in order. Throws `chat_not_found`. */
    async session(
      actor: Actor,
      chatId: string,
      { limit, after }: { limit: number; after: number },
    ): Promise<{ session: Session; rounds: LoggedRound[]; last: number | null }> {
      const [found, read] = await Promise.all([
        session(actor, chatId),
        rounds.list(chatId, { after, limit: limit + 1 }),
      ]);
      const page = read.slice(0, limit);
      return { session: found, rounds: page, last: read.length > limit ? (page.at(-1)?.round ?? null) : null };
    },

    /** Throws `chat_not_found`, `round_not_found`. */
    async round(actor: Actor, chatId: string, index: number): Promise<{ session: Session; round: LoggedRound }> {
      const [found, round] = await Promise.all([session(actor, chatId), rounds.find(chatId, index)]);
      if (round === undefined) throw appError('round_not_found');
      return { session: found, round };
    },

    /** The trend of a chat as SVG. Throws `chat_not_found`. */
    async trend(actor: Actor, chatId: string): Promise<string> {
      const [{ title }, points] = await Promise.all([session(actor, chatId), rounds.listTrend(chatId, drawnRounds)]);
      return drawTrend({ title, points });
    },

    /** Every round of the chats of a list, line by line, as it is read. Each page asks anew who may read it. */
    async *export(actor: Actor, filter: LogFilter, format: LogFormat): AsyncGenerator<string> {
      const head = headOf(format);
      if (head !== '') yield head;
      for (let after: ListPosition | null | undefined; after !== null; ) {
        const page = await conversations.list(actor, filter, { limit: chatsAtOnce, after: after ?? null });
        for (const chat of page.items) yield* linesOf(chat, format);
        after = page.last;
      }
    },
  };

  async function* linesOf(chat: LoggedChat, format: LogFormat): AsyncGenerator<string> {
    for (let [after, isMore] = [0, true]; isMore; ) {
      const read = await rounds.list(chat.id, { after, limit: roundsAtOnce });
      for (const round of read) yield lineOf(format, chat, round);
      after = read.at(-1)?.round ?? after;
      isMore = read.length === roundsAtOnce;
    }
  }
}
