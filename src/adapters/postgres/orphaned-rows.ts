/**
 * SQL condition on a row of `table` (or its alias): all its ACL keys belong to deleted users, so no user can read it.
 * False for rows with an empty ACL, which a deletion has already begun to remove.
 */
export const isOrphaned = (table: string): string => `
  cardinality(${table}.acl) > 0 and not exists (
    select from unnest(${table}.acl) as held (key)
    where not exists (
      select from users u
      where u.id = case when held.key like 'user:%' then substr(held.key, 6)::uuid end and u.deleted_at is not null
    )
  )`;
