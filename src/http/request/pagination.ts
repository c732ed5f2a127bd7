import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { appError } from '#src/errors.ts';
import { integerField } from './fields.ts';

export const cursorPaginationQuery = {
  limit: integerField({ min: 1, max: 100 }).default(20),
  cursor: z.string().min(1).max(1_000).optional(),
};

/**
 * Encodes list positions as signed cursors. `decode` throws `invalid_cursor` for a cursor of another list or with other
 * filters.
 */
export type CursorCodec = {
  encode(position: ListPosition | null, list: unknown): string | null;
  decode(cursor: string | undefined, list: unknown): ListPosition | null;
};

const position = z.tuple([z.string(), z.string(), z.string()]);

export function createCursorCodec(signingKey: string | Buffer): CursorCodec {
  const sign = (payload: string) =>
    createHmac('sha256', signingKey).update(payload).digest().subarray(0, 16).toString('base64url');

  return {
    encode(last, list) {
      if (last === null) return null;
      const payload = Buffer.from(JSON.stringify([last.sortKey, last.id, listHash(list)])).toString('base64url');
      return `v1.${payload}.${sign(payload)}`;
    },
    decode(cursor, list) {
      if (cursor === undefined) return null;
      const [, payload, signature] = /^v1\.([\w-]+)\.([\w-]{22})$/.exec(cursor) ?? [];
      if (payload === undefined || signature === undefined) throw appError('invalid_cursor');
      if (!timingSafeEqual(Buffer.from(signature), Buffer.from(sign(payload)))) throw appError('invalid_cursor');
      const [sortKey, id, hash] = position.parse(JSON.parse(Buffer.from(payload, 'base64url').toString()));
      if (hash !== listHash(list)) throw appError('invalid_cursor');
      return { sortKey, id };
    },
  };
}

function listHash(list: unknown): string {
  return createHash('sha256').update(canonicalJson(list)).digest('base64url').slice(0, 8);
}
