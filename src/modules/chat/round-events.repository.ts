import type { Knex } from 'knex';
import { pickColumns, queryRows } from '#src/adapters/postgres/shapes.ts';
import { type NumberedRoundEvent, RoundEventModel, type RoundStreamKey } from './chat.model.ts';

type StreamCursor = { streamId: string; afterSeq: number };

export type RoundEventBatch = RoundStreamKey & { orgId: string; events: readonly NumberedRoundEvent[] };

/** Time for which the events of an answer are kept: longer than clients take to reconnect. */
const KEPT_SECONDS = 60;

export function createRoundEventsRepository(db: Knex) {
  return {
    /**
     * Stores batches of events, each of one stream and in order. A batch whose insertion seemed to fail may be inserted
     * again with more events. Skips batches of a round that was deleted, reopened, or ended by a process other than the
     * writer.
     */
    async insert(batches: readonly RoundEventBatch[]): Promise<void> {
      await db.raw(
        `insert into round_events (org_id, stream_id, chat_id, first_seq, last_seq, events)
         select b.org_id, stream_id, chat_id, b.first_seq, b.last_seq, b.events
         from unnest(?::uuid[], ?::uuid[], ?::integer[], ?::uuid[], ?::bigint[], ?::bigint[], ?::text[])
           as b (org_id, chat_id, round, stream_id, first_seq, last_seq, events)
         join rounds using (chat_id, round, stream_id)
         where rounds.status = 'open' or b.last_seq <= rounds.last_seq
         -- A deletion of the round waits for this statement, or this statement finds no round.
         for key share of rounds
         on conflict (stream_id, first_seq) do update set last_seq = excluded.last_seq, events = excluded.events
         where round_events.last_seq < excluded.last_seq`,
        [
          batches.map(({ orgId }) => orgId),
          batches.map(({ chatId }) => chatId),
          batches.map(({ round }) => round),
          batches.map(({ streamId }) => streamId),
          batches.map(({ events }) => events[0]?.seq ?? 0),
          batches.map(({ events }) => events.at(-1)?.seq ?? 0),
          batches.map(({ events }) => JSON.stringify(events)),
        ],
      );
    },

    /**
     * Returns the events after each cursor, in order, by stream id. Some events before a cursor may be included,
     * because whole batches are read.
     */
    async listAfter(cursors: readonly StreamCursor[]): Promise<Map<string, NumberedRoundEvent[]>> {
      const batches = await queryRows(
        db,
        pickColumns(RoundEventModel, 'streamId', 'events'),
        `select e.stream_id, e.events
         from unnest(?::uuid[], ?::bigint[]) as c (stream_id, after_seq)
         cross join lateral (
           select * from round_events where stream_id = c.stream_id and last_seq > c.after_seq
         ) e
         order by e.stream_id, e.first_seq`,
        [cursors.map(({ streamId }) => streamId), cursors.map(({ afterSeq }) => afterSeq)],
      );
      const found = new Map<string, NumberedRoundEvent[]>();
      for (const { streamId, events } of batches) {
        const ofStream = found.get(streamId) ?? [];
        ofStream.push(...(JSON.parse(events) as NumberedRoundEvent[]));
        found.set(streamId, ofStream);
      }
      return found;
    },

    async deleteOld(): Promise<void> {
      await db.raw(
        `delete from round_events e
         where e.created_at < now() - make_interval(secs => :seconds) and not exists (
           select from rounds r
           where r.chat_id = e.chat_id and r.stream_id = e.stream_id
             and (r.status = 'open' or r.finished_at > now() - make_interval(secs => :seconds))
         )`,
        { seconds: KEPT_SECONDS },
      );
    },
  };
}

export type RoundEventsRepository = ReturnType<typeof createRoundEventsRepository>;
