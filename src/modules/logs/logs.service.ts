import type { Knex } from 'knex';
import type { ListPosition } from '#src/contracts/list-position.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
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
  RoundPage,
  Session,
  SumsFilter,
} from './logs.model.ts';
import { drawTrend } from './trend-chart.ts';

/** Of an export: few enough to be held by many at a time, since a message may be long. */
const chatsAtOnce = 50;
const roundsAtOnce = 20;
/** A picture of more says nothing any more. */
const drawnRounds = 1_000;

const anotherExport = { detail: 'Another export of yours is under way.', retryAfterSeconds: 30 };

type Page = { limit: number; after: ListPosition | null };

export type LogsService = ReturnType<typeof createLogsService>;

/** What has been said, and how it went: of the chats that the caller may read. */
export function createLogsService({ db }: { db: Knex }) {
  const conversations = createConversationsRepository(db);
  const sums = createLogSumsRepository(db);
  const rounds = createLoggedRoundsRepository(db);
  /** Who takes an export now. */
  const exporting = new Set<string>();

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

    /** A chat with a page of its rounds in order, fewer than `limit` where they are long. Throws `chat_not_found`. */
    async session(
      actor: Actor,
      chatId: string,
      { limit, after }: { limit: number; after: number },
    ): Promise<{ session: Session; rounds: RoundPage }> {
      const [found, page] = await Promise.all([session(actor, chatId), rounds.list(actor, chatId, { after, limit })]);
      return { session: found, rounds: page };
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

    /**
     * Every round of the chats of a list, line by line, as it is read. Each page asks anew who the reader is and what he
     * may read: what is taken from him meanwhile is not in it, and once `actorNow` throws it breaks off. Throws
     * `rate_limited` while this process makes another one for him.
     */
    async *export(
      actorNow: () => Promise<Actor>,
      filter: LogFilter,
      format: LogFormat,
    ): AsyncGenerator<string, void, undefined> {
      const { userId } = await actorNow();
      if (exporting.has(userId)) throw appError('rate_limited', anotherExport);
      exporting.add(userId);
      try {
        let head = headOf(format);
        for (let after: ListPosition | null | undefined; after !== null; ) {
          const page = { limit: chatsAtOnce, after: after ?? null };
          const { items, last } = await conversations.list(await actorNow(), filter, page);
          if (head !== '') yield head;
          head = '';
          for (const chat of items) yield* linesOf(actorNow, chat, format);
          after = last;
        }
      } finally {
        exporting.delete(userId);
      }
    },
  };

  async function* linesOf(actorNow: () => Promise<Actor>, chat: LoggedChat, format: LogFormat): AsyncGenerator<string> {
    for (let after: number | null = 0; after !== null; ) {
      const reader = await actorNow();
      const page: RoundPage = await rounds.list(reader, chat.id, { after, limit: roundsAtOnce });
      for (const round of page.items) yield lineOf(format, chat, round);
      after = page.last;
    }
  }
}
