import type { EchoState } from '#src/domain/alignment-fold.ts';
import type { Db } from '#src/ports/database.ts';
import type { LoggedRound } from './logs.model.ts';

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

/** Rounds of a chat that the caller may read, which is for the caller to know. */
export function createLoggedRoundsRepository(db: Db) {
  const rounds = (chatId: string) => db<LoggedRound & { chatId: string }>('rounds').where({ chatId });

  return {
    /** Those after a round, in order. */
    async list(chatId: string, { after, limit }: { after: number; limit: number }): Promise<LoggedRound[]> {
      return rounds(chatId)
        .where('round', '>', after)
        .orderBy('round')
        .limit(limit)
        .select(...columns);
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
