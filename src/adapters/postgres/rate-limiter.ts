import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { RateLimiter } from '#src/ports/load-control.ts';
import { integer } from './columns.ts';
import { RateLimitModel } from './rate-limiter.model.ts';
import { oneRow, shape } from './shapes.ts';

const taken = shape({ used: integer(), resetSeconds: integer() });
const tried = shape({ taken: integer(), waitSeconds: integer() });

/** Failures are forgotten a day after the last one, which is therefore a day before `ends_at`. */
const delayEnd = `r.ends_at - interval '1 day' + make_interval(secs => case
  when r.used < :count then 0 else least(:seconds, 30 * power(2, least(r.used - :count, 20))) end)`;

/** A row for each subject and limit, so that windows survive a restart and hold for all replicas. */
export function createPgRateLimiter(db: Knex): RateLimiter {
  return {
    async take(name, subject, { count, seconds }) {
      const values = { name, subject: hashOf(subject), count, seconds };
      const { used, resetSeconds } = await oneRow(
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
      const row = await oneRow(
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
      // The delay that another request has just begun is not in this statement's snapshot.
      return { isAllowed: row.taken > 0, waitSeconds: Math.max(1, row.waitSeconds) };
    },

    async reset(name, subject) {
      await RateLimitModel.query(db)
        .where({ name, subject: hashOf(subject) })
        .delete();
    },

    async forgetExpired() {
      await RateLimitModel.query(db).where('endsAt', '<', db.fn.now()).delete();
    },
  };
}

/** The table holds nobody's address or email. */
function hashOf(subject: string): Buffer {
  return createHash('sha256').update(subject).digest();
}
