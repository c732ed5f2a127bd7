import type { Knex } from 'knex';
import type { ListPosition } from '#src/contracts/request-data.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import { type LogExportFormat, logExportHeader, logExportLine } from './log-export.ts';
import type {
  LogFilter,
  LoggedAgent,
  LoggedChat,
  LoggedChatWithTotals,
  LoggedRoundDetail,
  LoggedRoundPage,
  LogStats,
  LogStatsFilter,
  RecentChat,
} from './logs.model.ts';
import { createLogsRepository } from './logs.repository.ts';
import { drawTrendChart } from './trend-chart.ts';

/** Chats per page of an export; small, because messages may be long and many exports may run at once. */
const chatsPerPage = 50;
const roundsPerPage = 20;
const drawnRounds = 1_000;

const anotherExport = { detail: 'You have another log export running. Wait until it ends.', retryAfterSeconds: 30 };

type Page = { limit: number; after: ListPosition | null };

export type LogsService = ReturnType<typeof createLogsService>;

export function createLogsService({ db }: { db: Knex }) {
  const repository = createLogsRepository(db);
  const exporting = new Set<string>();

  async function count(actor: Actor, filter: LogFilter): Promise<number> {
    if (filter.words !== undefined) return repository.countWithWords(actor, filter);
    const { chats } = await repository.stats(actor, filter, { withDrafts: true });
    if (filter.state !== undefined) return chats[filter.state];
    return Object.values(chats).reduce((sum, count) => sum + count);
  }

  async function session(actor: Actor, chatId: string): Promise<LoggedChatWithTotals> {
    const found = await repository.find(actor, chatId);
    if (found === undefined) throw appError('chat_not_found');
    return found;
  }

  return {
    async list(
      actor: Actor,
      filter: LogFilter,
      page: Page & { includeTotal: boolean },
    ): Promise<{ items: LoggedChat[]; last: ListPosition | null; total: number | null }> {
      const [{ items, last }, total] = await Promise.all([
        repository.list(actor, filter, page),
        page.includeTotal ? count(actor, filter) : null,
      ]);
      return { items, last, total };
    },

    stats: (actor: Actor, filter: LogStatsFilter): Promise<LogStats> => repository.stats(actor, filter),
    recent: (actor: Actor, of: { limit: number; mine: boolean }): Promise<RecentChat[]> =>
      repository.listRecent(actor, of),
    agents: (actor: Actor): Promise<LoggedAgent[]> => repository.listAgents(actor),

    /**
     * Returns a chat with one page of its rounds; fewer rounds than `limit` if they are long. Throws `chat_not_found`.
     */
    async session(
      actor: Actor,
      chatId: string,
      { limit, after }: { limit: number; after: number },
    ): Promise<{ session: LoggedChatWithTotals; rounds: LoggedRoundPage }> {
      const [found, page] = await Promise.all([
        session(actor, chatId),
        repository.listRounds(actor, chatId, { after, limit }),
      ]);
      return { session: found, rounds: page };
    },

    /** Returns one round of a chat. Throws `chat_not_found` and `round_not_found`. */
    async round(
      actor: Actor,
      chatId: string,
      index: number,
    ): Promise<{ session: LoggedChatWithTotals; round: LoggedRoundDetail }> {
      const [found, round] = await Promise.all([session(actor, chatId), repository.findRound(chatId, index)]);
      if (round === undefined) throw appError('round_not_found');
      return { session: found, round };
    },

    async trend(actor: Actor, chatId: string): Promise<string> {
      const [{ title }, points] = await Promise.all([
        session(actor, chatId),
        repository.listTrend(chatId, drawnRounds),
      ]);
      return drawTrendChart({ title, points });
    },

    /**
     * Exports every round of the listed chats, line by line. Each page is read with the user's current rights: chats
     * that they can no longer read are omitted, and the export stops once `actorNow` throws. Throws `rate_limited`
     * while another export of the user runs in this process.
     */
    async *export(
      actorNow: () => Promise<Actor>,
      filter: LogFilter,
      format: LogExportFormat,
    ): AsyncGenerator<string, void, undefined> {
      const { userId } = await actorNow();
      if (exporting.has(userId)) throw appError('rate_limited', anotherExport);
      exporting.add(userId);
      try {
        let head = logExportHeader(format);
        for (let after: ListPosition | null | undefined; after !== null; ) {
          const page = { limit: chatsPerPage, after: after ?? null };
          const { items, last } = await repository.list(await actorNow(), filter, page);
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

  async function* linesOf(
    actorNow: () => Promise<Actor>,
    chat: LoggedChat,
    format: LogExportFormat,
  ): AsyncGenerator<string> {
    for (let after: number | null = 0; after !== null; ) {
      const reader = await actorNow();
      const page: LoggedRoundPage = await repository.listRounds(reader, chat.id, { after, limit: roundsPerPage });
      for (const round of page.items) yield logExportLine(format, chat, round);
      after = page.last;
    }
  }
}
