import { type Actor, keysOf } from '#src/domain/access/visibility.ts';

/**
 * Where the chats stand that the caller may read, as the first part of a statement `with recursive`: a row `reach` for
 * each set of keys that his open, and (`author` is his) for each that only chats of his own may be read of, as those for
 * a team that he has left. `log_totals` has a row or some for each set; his own are skipped through in an index.
 * A hash says where to look; what is shown is compared key by key.
 */
export const reach = `
  opened as materialized (
    select distinct audience_hash from log_totals
    where org_id = :orgId and span = 'ever' and audience && :acl::text[]
  ),
  own (audience_hash) as (
    select min(audience_hash) from chat_logs where org_id = :orgId and created_by = :userId
    union all
    select (select min(l.audience_hash) from chat_logs l
            where l.org_id = :orgId and l.created_by = :userId and l.audience_hash > own.audience_hash)
    from own where own.audience_hash is not null
  ),
  reach as materialized (
    select audience_hash, null::uuid as author from opened
    union all
    select audience_hash, :userId::uuid from own
    where audience_hash is not null and audience_hash not in (select audience_hash from opened)
  )`;

/** Of a log `l`: is it within the reach `r`? */
export const isWithin = `l.org_id = :orgId and l.audience_hash = r.audience_hash
  and (r.author is null or l.created_by = r.author)`;

export const reachValues = (actor: Actor) => ({ orgId: actor.orgId, userId: actor.userId, acl: keysOf(actor) });
