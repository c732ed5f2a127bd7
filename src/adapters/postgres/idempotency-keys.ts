import { v7 as uuidv7 } from 'uuid';
import type { Db } from '#src/ports/database.ts';
import type { IdempotencyKey, IdempotencyStore, StoredResponse } from '#src/ports/idempotency-store.ts';
import { IdempotencyKeyModel } from './idempotency-keys.model.ts';

type Row = {
  fingerprint: string;
  responseStatus: number | null;
  responseHeaders: Record<string, string> | null;
  /** As JSON within JSON, since `jsonb` would put the fields in another order; what was kept before that is plain. */
  responseBody: string | StoredResponse['body'] | null;
};

/** Keys in Postgres: they survive a restart and hold for all replicas. */
export function createIdempotencyStore(db: Db): IdempotencyStore {
  const until = (leaseSeconds: number) => db.raw('now() + make_interval(secs => ?)', [leaseSeconds]);
  const expired = () => db('idempotency_keys').whereRaw("created_at < now() - interval '24 hours'");
  const held = (key: IdempotencyKey, leaseOwner: string) => db('idempotency_keys').where({ ...key, leaseOwner });

  return {
    async claim(key, fingerprint, leaseSeconds) {
      await expired().where(key).delete();
      const lease = { leaseOwner: uuidv7(), leaseExpiresAt: until(leaseSeconds) };
      for (;;) {
        // A key whose process died is taken over, by a request of the same fingerprint only.
        const [taken] = await IdempotencyKeyModel.table(db)
          .insert({ ...key, fingerprint, reservedId: uuidv7(), ...lease })
          .onConflict(['userId', 'route', 'key'])
          .merge(lease)
          .whereRaw('idempotency_keys.response_status is null and idempotency_keys.lease_expires_at <= now()')
          .where('idempotency_keys.fingerprint', fingerprint)
          .returning('reservedId');
        if (taken !== undefined) return { outcome: 'claimed', leaseOwner: lease.leaseOwner, ...taken };

        const row: Row | undefined = await db('idempotency_keys').where(key).first();
        // Expired between the two statements: try again.
        if (row === undefined) continue;
        if (row.fingerprint !== fingerprint) return { outcome: 'other_request' };
        if (row.responseStatus === null || row.responseBody === null) return { outcome: 'in_flight' };
        return {
          outcome: 'stored',
          response: { status: row.responseStatus, headers: row.responseHeaders ?? {}, body: bodyOf(row.responseBody) },
        };
      }
    },

    async renew(key, leaseOwner, leaseSeconds) {
      await held(key, leaseOwner).update({ leaseExpiresAt: until(leaseSeconds) });
    },

    async complete(key, leaseOwner, response) {
      await held(key, leaseOwner).update({
        responseStatus: response.status,
        responseHeaders: JSON.stringify(response.headers),
        responseBody: JSON.stringify(JSON.stringify(response.body)),
      });
    },

    async release(key, leaseOwner) {
      await held(key, leaseOwner).update({ leaseExpiresAt: db.fn.now() });
    },

    async forgetExpired() {
      await expired().delete();
    },
  };
}

function bodyOf(stored: string | StoredResponse['body']): StoredResponse['body'] {
  return typeof stored === 'string' ? (JSON.parse(stored) as StoredResponse['body']) : stored;
}
