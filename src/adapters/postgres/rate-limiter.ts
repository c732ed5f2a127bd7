import { createHash } from 'node:crypto';
import type { Db } from '#src/ports/database.ts';
import type { RateLimiter } from '#src/ports/rate-limiter.ts';
import { integer } from './columns.ts';
import { RateLimitModel } from './rate-limiter.model.ts';
import { oneRow, shape } from './shapes.ts';

const taken = shape({ used: integer(), resetSeconds: integer() });

/** A row for each subject and limit, so that windows survive a restart and hold for all replicas. */
export function createPgRateLimiter(db: Db): RateLimiter {
  return {
    async take(name, subject, { count, seconds }) {
      // Who asks is nobody's business once the window is over, nor before.
      const values = { name, subject: createHash('sha256').update(subject).digest(), count, seconds };
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

    async forgetExpired() {
      await RateLimitModel.query(db).where('endsAt', '<', db.fn.now()).delete();
    },
  };
}
