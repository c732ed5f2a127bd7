import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import pLimit, { type LimitFunction } from 'p-limit';
import { v7 as uuidv7 } from 'uuid';
import { AppError, appError } from '#src/errors.ts';
import type { RateLimiter } from '#src/ports/load-control.ts';
import type { ModelCallLimiter } from '#src/ports/models.ts';
import { ModelCallModel, OverloadedModelPauseModel, RateLimitModel } from './adapter-tables.model.ts';
import { bigintColumn, defineRowShape, doubleColumn, integerColumn, queryOneRow } from './shapes.ts';

const occupancy = defineRowShape({
  own: bigintColumn(),
  all: bigintColumn(),
  width: integerColumn().nullable(),
  pauseMs: doubleColumn().nullable(),
});

const CALLS_AT_ONCE = 8;
/** Lease of a model call: short, so that the slots of a dead process are free before its activities are retried. */
const LEASE_SECONDS = 9;
const RENEW_INTERVAL_MS = 3_000;
const POLL_INTERVAL_MS = 200;
const TIMEOUT_MS = 120_000;
/** Longest pause for one Retry-After; a model service that needs more time sends it again. */
const MAX_PAUSE_SECONDS = 600;

type CallOwner = { orgId: string; model: string; atOnce?: number };
/**
 * Result of an attempt to start a model call. `waitMs` is the time to wait before the next attempt, or null if the call
 * may start. `isThrottled`: the model service has asked for a pause.
 */
type Entry = { waitMs: number | null; isThrottled: boolean };

/** Limits model calls across all processes by a row per call. A second limit within the process saves queries. */
export function createPgModelCallLimiter(db: Knex): ModelCallLimiter {
  const limits = new Map<string, { run: LimitFunction; users: number }>();
  /**
   * End of the pause of each model, in ms since the epoch; includes pauses that this process could not yet store in the
   * database.
   */
  const pausedUntil = new Map<string, number>();

  async function withinProcessLimit<T>({ orgId, model }: CallOwner, call: () => Promise<T>): Promise<T> {
    const key = `${orgId} ${model}`;
    const limit = limits.get(key) ?? { run: pLimit(CALLS_AT_ONCE), users: 0 };
    limits.set(key, limit);
    limit.users += 1;
    try {
      return await limit.run(call);
    } finally {
      limit.users -= 1;
      if (limit.users === 0) limits.delete(key);
    }
  }

  async function tryToEnter(
    id: string,
    { orgId, model, atOnce = Number.POSITIVE_INFINITY }: CallOwner,
  ): Promise<Entry> {
    return db.transaction(async (trx) => {
      await trx.raw(`select pg_advisory_xact_lock(hashtextextended('model_calls ' || ?, 0))`, [model]);
      await ModelCallModel.query(trx).where({ model }).whereRaw('expires_at < clock_timestamp()').delete();
      const { own, all, width, pauseMs } = await queryOneRow(
        trx,
        occupancy,
        `select count(*) filter (where c.org_id = :orgId) as own, count(c.id) as all, p.width,
                (extract(epoch from p.not_before - clock_timestamp()) * 1000)::float as pause_ms
         from (values (:model)) as asked (model)
         left join model_pauses p on p.model = asked.model
         left join model_calls c on c.model = asked.model
         group by p.width, p.not_before`,
        { orgId, model },
      );
      if (pauseMs !== null && pauseMs > 0) return { waitMs: pauseMs, isThrottled: true };
      const isFull = own >= CALLS_AT_ONCE || all >= Math.min(width ?? atOnce, atOnce);
      if (isFull) return { waitMs: POLL_INTERVAL_MS, isThrottled: false };
      const expiresAt = trx.raw('clock_timestamp() + make_interval(secs => ?)', [LEASE_SECONDS]);
      await ModelCallModel.query(trx).insert({ id, orgId, model, expiresAt });
      return { waitMs: null, isThrottled: width !== null };
    });
  }

  async function renew(id: string): Promise<void> {
    const expiresAt = db.raw('clock_timestamp() + make_interval(secs => ?)', [LEASE_SECONDS]);
    await ModelCallModel.query(db).findById(id).patch({ expiresAt });
  }

  /** Ignores errors: a row that cannot be deleted expires with the lease of its model call. */
  async function leave(id: string): Promise<void> {
    await ModelCallModel.query(db)
      .deleteById(id)
      .catch(() => undefined);
  }

  async function notePause(model: string, seconds: number): Promise<void> {
    await db.raw(
      `insert into model_pauses as p (model, not_before, width)
       values (:model, clock_timestamp() + make_interval(secs => :seconds), 1)
       on conflict (model) do update set not_before = greatest(p.not_before, excluded.not_before), width = 1`,
      { model, seconds },
    );
  }

  /** Raises the limit of a throttled model by one, so that a service that has just recovered is not overloaded. */
  async function noteSuccess(model: string): Promise<void> {
    // Successes during a pause do not count: such a call started before the pause and does not show that the service
    // has recovered.
    await OverloadedModelPauseModel.query(db)
      .where({ model })
      .whereRaw('not_before < clock_timestamp()')
      .increment('width', 1);
    await OverloadedModelPauseModel.query(db).where({ model }).where('width', '>', CALLS_AT_ONCE).delete();
  }

  async function enter(id: string, of: CallOwner, untilMs: number, signal: AbortSignal): Promise<Entry> {
    for (;;) {
      signal.throwIfAborted();
      const entry = await tryToEnter(id, of);
      const pauseMs = (pausedUntil.get(of.model) ?? 0) - Date.now();
      if (entry.waitMs === null && pauseMs <= 0) return entry;
      if (entry.waitMs === null) await leave(id);
      const waitMs = Math.max(entry.waitMs ?? 0, pauseMs);
      const isThrottled = entry.isThrottled || pauseMs > 0;
      if (isThrottled && Date.now() + waitMs > untilMs) throw paused(waitMs);
      // Jitter, so that waiting calls do not retry at the same moment.
      await delay(waitMs + Math.random() * POLL_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async function attempt<T>(of: CallOwner, call: () => Promise<T>, untilMs: number, signal: AbortSignal): Promise<T> {
    const id = uuidv7();
    const { isThrottled } = await enter(id, of, untilMs, signal);
    // Ignores errors: if the database is unreachable, the lease of the model call expires.
    const renewal = setInterval(() => void renew(id).catch(() => undefined), RENEW_INTERVAL_MS);
    try {
      const result = await call();
      if (isThrottled) await noteSuccess(of.model).catch(() => undefined);
      return result;
    } catch (error) {
      const seconds = pauseOf(error);
      if (seconds !== undefined) {
        pausedUntil.set(of.model, Math.max(pausedUntil.get(of.model) ?? 0, Date.now() + seconds * 1_000));
        await notePause(of.model, seconds).catch(() => undefined);
      }
      throw error;
    } finally {
      clearInterval(renewal);
      await leave(id);
    }
  }

  async function untilTimeout<T>(of: CallOwner, call: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const untilMs = Date.now() + TIMEOUT_MS;
    for (;;) {
      try {
        return await attempt(of, call, untilMs, signal);
      } catch (error) {
        const seconds = pauseOf(error);
        if (seconds === undefined || Date.now() + seconds * 1_000 > untilMs) throw error;
      }
    }
  }

  return {
    async run(of, call, signal) {
      signal.throwIfAborted();
      const aborted = Promise.withResolvers<never>();
      const stop = () => aborted.reject(signal.reason);
      signal.addEventListener('abort', stop, { once: true });
      try {
        return await Promise.race([withinProcessLimit(of, () => untilTimeout(of, call, signal)), aborted.promise]);
      } finally {
        signal.removeEventListener('abort', stop);
      }
    },
  };
}

function pauseOf(error: unknown): number | undefined {
  const seconds = error instanceof AppError ? error.retryAfterSeconds : undefined;
  return seconds === undefined ? undefined : Math.min(seconds, MAX_PAUSE_SECONDS);
}

function paused(waitMs: number): AppError {
  return appError('model_unavailable', {
    detail: 'The model service limits the rate of calls.',
    retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1_000)),
  });
}

const taken = defineRowShape({ used: integerColumn(), resetSeconds: integerColumn() });
const tried = defineRowShape({ taken: integerColumn(), waitSeconds: integerColumn() });

/**
 * SQL expression for the end of the delay after failed attempts. `ends_at` is one day after the last failure, so the
 * delay is counted from a day before `ends_at`.
 */
const delayEnd = `r.ends_at - interval '1 day' + make_interval(secs => case
  when r.used < :count then 0 else least(:seconds, 30 * power(2, least(r.used - :count, 20))) end)`;

export function createPgRateLimiter(db: Knex): RateLimiter {
  return {
    async take(name, subject, { count, seconds }) {
      const values = { name, subject: hashOf(subject), count, seconds };
      const { used, resetSeconds } = await queryOneRow(
        db,
        taken,
        `insert into rate_limits as r (name, subject, used, ends_at)
         values (:name, :subject, 1, now() + make_interval(secs => :seconds))
         on conflict (name, subject) do update set
           used = case when r.ends_at <= now() then 1 else least(r.used, :count) + 1 end,
           ends_at = case when r.ends_at <= now() then excluded.ends_at else r.ends_at end
         returning used, ceil(extract(epoch from ends_at - now()))::integer as reset_seconds`,
        values,
      );
      return { isAllowed: used <= count, remaining: Math.max(0, count - used), resetSeconds };
    },

    async takeWithBackoff(name, subject, { count, seconds }) {
      const row = await queryOneRow(
        db,
        tried,
        `with taken as (
           insert into rate_limits as r (name, subject, used, ends_at)
           values (:name, :subject, 1, now() + interval '1 day')
           on conflict (name, subject) do update set
             used = case when r.ends_at <= now() then 1 else least(r.used, :count + 20) + 1 end, ends_at = excluded.ends_at
             where r.ends_at <= now() or ${delayEnd} <= now()
           returning 1)
         select (select count(*) from taken)::integer as taken, coalesce((
           select ceil(extract(epoch from ${delayEnd} - now())) from rate_limits r
           where name = :name and subject = :subject), 0)::integer as wait_seconds`,
        { name, subject: hashOf(subject), count, seconds },
      );
      // `waitSeconds` is at least 1: a concurrent request may have just begun a longer delay, which the snapshot of
      // this statement does not show.
      return { isAllowed: row.taken > 0, waitSeconds: Math.max(1, row.waitSeconds) };
    },

    async reset(name, subject) {
      await RateLimitModel.query(db)
        .where({ name, subject: hashOf(subject) })
        .delete();
    },

    async forgetExpired() {
      return RateLimitModel.query(db).where('endsAt', '<', db.fn.now()).delete();
    },
  };
}

/** Subjects are stored as hashes, because they are IP and email addresses. */
function hashOf(subject: string): Buffer {
  return createHash('sha256').update(subject).digest();
}
