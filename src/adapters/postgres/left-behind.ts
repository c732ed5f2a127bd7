/**
 * As a condition on a row of `table` (or its alias): its keys are those of users who are gone, so that nobody may read
 * it any more. What a deletion has begun to take away has no keys at all, and is not meant.
 */
export const isLeftBehind = (table: string): string => `
  cardinality(${table}.acl) > 0 and not exists (
    select from unnest(${table}.acl) as held (key)
    where not exists (
      select from users u
      where u.id = case when held.key like 'user:%' then substr(held.key, 6)::uuid end and u.deleted_at is not null
    )
  )`;
