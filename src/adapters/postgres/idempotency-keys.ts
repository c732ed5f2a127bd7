import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { IdempotencyKey, IdempotencyStore, StoredResponse } from '#src/ports/idempotency-store.ts';
import { IdempotencyKeyModel } from './adapter-tables.model.ts';

export function createIdempotencyStore(db: Knex): IdempotencyStore {
  const until = (leaseSeconds: number) => db.raw('now() + make_interval(secs => ?)', [leaseSeconds]);
  const expired = () => IdempotencyKeyModel.table(db).whereRaw("created_at < now() - interval '24 hours'");
  const held = (key: IdempotencyKey, leaseOwner: string) => IdempotencyKeyModel.query(db).where({ ...key, leaseOwner });

  return {
    async claim(key, fingerprint, leaseSeconds) {
      await expired().where(key).delete();
      const lease = { leaseOwner: uuidv7(), leaseExpiresAt: until(leaseSeconds) };
      for (;;) {
        // Inserts the key. An unfinished key of the same request is taken over if its process has died, which an
        // expired lease shows.
        const [taken] = await IdempotencyKeyModel.table(db)
          .insert({ ...key, fingerprint, reservedId: uuidv7(), ...lease })
          .onConflict(['userId', 'route', 'key'])
          .merge(lease)
          .whereRaw('idempotency_keys.response_status is null and idempotency_keys.lease_expires_at <= now()')
          .where('idempotency_keys.fingerprint', fingerprint)
          .returning('reservedId');
        if (taken !== undefined) return { outcome: 'claimed', leaseOwner: lease.leaseOwner, ...taken };

        const row = await IdempotencyKeyModel.table(db).where(key).first();
        // The row of the key expired and was deleted between the two statements: try again.
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
      await held(key, leaseOwner).patch({ leaseExpiresAt: until(leaseSeconds) });
    },

    async complete(key, leaseOwner, response) {
      await held(key, leaseOwner).patch({
        responseStatus: response.status,
        responseHeaders: response.headers,
        responseBody: JSON.stringify(response.body),
      });
    },

    async release(key, leaseOwner) {
      // Changes the owner of the key, so that a late renewal by the old owner cannot restore the lease.
      await held(key, leaseOwner).patch({ leaseOwner: uuidv7(), leaseExpiresAt: db.fn.now() });
    },

    async forgetExpired() {
      return expired().delete();
    },
  };
}

function bodyOf(stored: string | StoredResponse['body']): StoredResponse['body'] {
  return typeof stored === 'string' ? (JSON.parse(stored) as StoredResponse['body']) : stored;
}
