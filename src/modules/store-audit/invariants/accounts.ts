import { NIL } from 'uuid';
import { pickColumns } from '#src/adapters/postgres/shapes.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import { countRows, type InvariantCheck, queryRowPagesById, violatingRowShape } from './invariant.ts';

/** Finds deleted users whose private data still exists. Data is private if its ACL lets no other user read it. */
const usersWithRemains = `
  select * from (
    select u.id, m.org_id,
           case
             when u.email <> '' then 'an email address'
             when u.avatar_url is not null then 'a picture'
             when exists (
               select from documents d where d.org_id = m.org_id and d.deleted_at is null and d.acl = array['user:' || u.id]
             ) then 'documents'
             when exists (select from chats c where c.created_by = u.id and c.acl = array['user:' || u.id]) then 'chats'
             when exists (select from drafts d where d.created_by = u.id and d.acl = array['user:' || u.id]) then 'drafts'
             when exists (
               select from agents a where a.created_by = u.id and a.acl = array['user:' || u.id] and a.agent_prompt <> ''
             ) then 'agents'
             when exists (select from folders f where f.owner_id = u.id) then 'folders'
             when exists (select from connections c where c.user_id = u.id) then 'connections'
             when exists (select from user_identities i where i.user_id = u.id) then 'a sign-in identity'
             when exists (select from avatars a where a.user_id = u.id) then 'an avatar'
           end as fault
    from users u
    join memberships m on m.user_id = u.id
    where u.id > :after and u.erase_due_at < now() - make_interval(secs => :erasureSeconds)
  ) deleted_user
  where fault is not null`;

const organizationsWithRemains = `
  select * from (
    select o.id, o.id as org_id,
           case
             when o.name <> '' then 'a name'
             when exists (select from memberships m where m.org_id = o.id) then 'members'
             when exists (select from documents d where d.org_id = o.id) then 'documents'
             when exists (select from tool_connections c where c.org_id = o.id) then 'connections'
           end as fault
    from organizations o
    where o.id > :after and o.erase_due_at < now() - make_interval(secs => :erasureSeconds)
  ) deleted_organization
  where fault is not null`;

export const deletedAccountsAreErased: InvariantCheck = {
  invariant: 'I13',
  title: 'private data of deleted users and organizations is erased by the day that was announced',
  async run({ db }, { erasureSeconds }, report) {
    const values = { after: NIL, erasureSeconds };
    for await (const users of queryRowPagesById(db, violatingRowShape, usersWithRemains, values)) {
      for (const { id, orgId, fault } of users) report({ orgId, detail: `Deleted user ${id} still has ${fault}.` });
    }
    for await (const organizations of queryRowPagesById(db, violatingRowShape, organizationsWithRemains, values)) {
      for (const { orgId, fault } of organizations)
        report({ orgId, detail: `The deleted organization still has ${fault}.` });
    }
    const isDue = 'erase_due_at < now()';
    return (await countRows(db, 'users', isDue)) + (await countRows(db, 'organizations', isDue));
  },
};

const withoutAdmin = `
  select id from (
    select m.org_id as id
    from memberships m
    join users u on u.id = m.user_id
    join organizations o on o.id = m.org_id
    where u.deleted_at is null and o.deleted_at is null and m.org_id > :after
    group by m.org_id
    having not bool_or(m.is_org_admin and u.disabled_at is null and not u.is_api_key)
  ) organization
  where true`;

export const organizationsHaveAdmins: InvariantCheck = {
  invariant: 'I14',
  title: 'every organization with members has an enabled admin',
  async run({ db }, _grace, report) {
    for await (const organizations of queryRowPagesById(db, pickColumns(OrganizationModel, 'id'), withoutAdmin)) {
      for (const { id } of organizations) report({ orgId: id, detail: 'The organization has no enabled admin.' });
    }
    return countRows(db, 'organizations', 'deleted_at is null');
  },
};
