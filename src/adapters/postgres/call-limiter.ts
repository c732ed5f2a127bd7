import { setTimeout as delay } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { AppError, appError } from '#src/errors.ts';
import type { CallLimiter } from '#src/ports/call-limiter.ts';
import type { Db } from '#src/ports/database.ts';
import { createGate } from '../gate.ts';
import { ModelCallModel, ModelPauseModel } from './call-limiter.model.ts';
import { bigint, double, integer } from './columns.ts';
import { oneRow, shape } from './shapes.ts';

const occupancy = shape({ own: bigint(), all: bigint(), width: integer().nullable(), pauseMs: double().nullable() });

/** Of one organization and model. */
const CALLS_AT_ONCE = 8;
/** What a process that dies holds is free again before its steps run elsewhere. */
const LEASE_SECONDS = 9;
const RENEW_INTERVAL_MS = 3_000;
const POLL_INTERVAL_MS = 200;
/** As long as a call waits in all before its caller waits for it instead. */
const TIMEOUT_MS = 120_000;
/** A service that wants more says so again; one that names a year by mistake is not lost for it. */
const MAX_PAUSE_SECONDS = 600;

type Of = { orgId: string; model: string; atOnce?: number };
/** `waitMs` is null for a call that may be made; `isTried` says that its service has asked for a pause. */
type Entry = { waitMs: number | null; isTried: boolean };

/** A row for each call that is under way. Within a process, calls wait for each other before they ask the database. */
export function createPgCallLimiter(db: Db): CallLimiter {
  /** Of those who have a call under way or waiting. */
  const gates = new Map<string, { pass: ReturnType<typeof createGate>; users: number }>();
  /** By model, in milliseconds: what this process was told before the database knows it. */
  const heardOf = new Map<string, number>();

  async function throughGate<T>({ orgId, model }: Of, call: () => Promise<T>): Promise<T> {
    const key = `${orgId} ${model}`;
    const gate = gates.get(key) ?? { pass: createGate(CALLS_AT_ONCE), users: 0 };
    gates.set(key, gate);
    gate.users += 1;
    try {
      return await gate.pass(call);
    } finally {
      gate.users -= 1;
      if (gate.users === 0) gates.delete(key);
    }
  }

  async function tryToEnter(id: string, { orgId, model, atOnce = Number.POSITIVE_INFINITY }: Of): Promise<Entry> {
    return db.transaction(async (trx) => {
      await trx.raw(`select pg_advisory_xact_lock(hashtextextended('model_calls ' || ?, 0))`, [model]);
      await ModelCallModel.query(trx).where({ model }).whereRaw('expires_at < clock_timestamp()').delete();
      const { own, all, width, pauseMs } = await oneRow(
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
      if (pauseMs !== null && pauseMs > 0) return { waitMs: pauseMs, isTried: true };
      const isFull = own >= CALLS_AT_ONCE || all >= Math.min(width ?? atOnce, atOnce);
      if (isFull) return { waitMs: POLL_INTERVAL_MS, isTried: false };
      const expiresAt = trx.raw('clock_timestamp() + make_interval(secs => ?)', [LEASE_SECONDS]);
      await ModelCallModel.query(trx).insert({ id, orgId, model, expiresAt });
      return { waitMs: null, isTried: width !== null };
    });
  }

  async function renew(id: string): Promise<void> {
    const expiresAt = db.raw('clock_timestamp() + make_interval(secs => ?)', [LEASE_SECONDS]);
    await ModelCallModel.query(db).findById(id).patch({ expiresAt });
  }

  /** A row that stays all the same ends by itself. */
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

  /** One call more at a time, so that a service that is still busy is not asked by all at once. */
  async function noteSuccess(model: string): Promise<void> {
    // One that was under way when another was refused says nothing about the time after.
    await ModelPauseModel.query(db).where({ model }).whereRaw('not_before < clock_timestamp()').increment('width', 1);
    await ModelPauseModel.query(db).where({ model }).where('width', '>', CALLS_AT_ONCE).delete();
  }

  async function enter(id: string, of: Of, untilMs: number, signal: AbortSignal): Promise<Entry> {
    for (;;) {
      signal.throwIfAborted();
      const entry = await tryToEnter(id, of);
      const toldMs = (heardOf.get(of.model) ?? 0) - Date.now();
      if (entry.waitMs === null && toldMs <= 0) return entry;
      if (entry.waitMs === null) await leave(id);
      const waitMs = Math.max(entry.waitMs ?? 0, toldMs);
      const isTried = entry.isTried || toldMs > 0;
      if (isTried && Date.now() + waitMs > untilMs) throw paused(waitMs);
      // Those who wait for the same moment do not ask in the same one.
      await delay(waitMs + Math.random() * POLL_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async function attempt<T>(of: Of, call: () => Promise<T>, untilMs: number, signal: AbortSignal): Promise<T> {
    const id = uuidv7();
    const { isTried } = await enter(id, of, untilMs, signal);
    // A database that is away takes no news; the lease ends by itself.
    const renewal = setInterval(() => void renew(id).catch(() => undefined), RENEW_INTERVAL_MS);
    try {
      const result = await call();
      if (isTried) await noteSuccess(of.model).catch(() => undefined);
      return result;
    } catch (error) {
      const seconds = pauseOf(error);
      if (seconds !== undefined) {
        heardOf.set(of.model, Math.max(heardOf.get(of.model) ?? 0, Date.now() + seconds * 1_000));
        await notePause(of.model, seconds).catch(() => undefined);
      }
      throw error;
    } finally {
      clearInterval(renewal);
      await leave(id);
    }
  }

  async function patiently<T>(of: Of, call: () => Promise<T>, signal: AbortSignal): Promise<T> {
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
        return await Promise.race([throughGate(of, () => patiently(of, call, signal)), aborted.promise]);
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
    detail: 'The model service asked for a pause.',
    retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1_000)),
  });
}
