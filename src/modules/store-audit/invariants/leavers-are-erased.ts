import { NIL } from 'uuid';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, faulty, pagesOf } from './rows.ts';

/** Of users, by what nobody else may read; a document may have come to be somebody else's meanwhile. */
const usersWithRemains = `
  select * from (
    select u.id, m.org_id,
           case
             when u.email <> '' then 'is known by address'
             when u.avatar_url is not null then 'has a picture'
             when exists (
               select from documents d where d.org_id = m.org_id and d.deleted_at is null and d.acl = array['user:' || u.id]
             ) then 'has documents'
             when exists (select from chats c where c.created_by = u.id and c.acl = array['user:' || u.id]) then 'has chats'
             when exists (select from drafts d where d.created_by = u.id and d.acl = array['user:' || u.id]) then 'has drafts'
             when exists (
               select from agents a where a.created_by = u.id and a.acl = array['user:' || u.id] and a.agent_prompt <> ''
             ) then 'has agents'
             when exists (select from folders f where f.owner_id = u.id) then 'has folders'
             when exists (select from connections c where c.user_id = u.id) then 'has connections'
             when exists (select from user_identities i where i.user_id = u.id) then 'is known by an identity'
             when exists (select from avatars a where a.user_id = u.id) then 'has an avatar'
           end as fault
    from users u
    join memberships m on m.user_id = u.id
    where u.id > :after and u.erase_due_at < now() - make_interval(secs => :erasureSeconds)
  ) leaver
  where fault is not null`;

const organizationsWithRemains = `
  select * from (
    select o.id, o.id as org_id,
           case
             when o.name <> '' then 'has a name'
             when exists (select from memberships m where m.org_id = o.id) then 'has members'
             when exists (select from documents d where d.org_id = o.id) then 'has documents'
             when exists (select from tool_connections c where c.org_id = o.id) then 'has connections'
           end as fault
    from organizations o
    where o.id > :after and o.erase_due_at < now() - make_interval(secs => :erasureSeconds)
  ) leaver
  where fault is not null`;

/** I13: what nobody may read any more is not kept for longer than was said. */
export const leaversAreErased: InvariantCheck = {
  invariant: 'I13',
  title: 'nothing that was of a user or an organization alone is there longer after they have gone than was said',
  async run({ db }, { erasureSeconds }, found) {
    const values = { after: NIL, erasureSeconds };
    for await (const users of pagesOf(db, faulty, usersWithRemains, values)) {
      for (const { id, orgId, fault } of users) found({ orgId, detail: `User ${id}, who is gone, ${fault}.` });
    }
    for await (const organizations of pagesOf(db, faulty, organizationsWithRemains, values)) {
      for (const { orgId, fault } of organizations) found({ orgId, detail: `It is gone, and ${fault}.` });
    }
    const isDue = 'erase_due_at < now()';
    return (await countRows(db, 'users', isDue)) + (await countRows(db, 'organizations', isDue));
  },
};
