import { pick } from '#src/adapters/postgres/shapes.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, pagesOf } from './rows.ts';

const withoutAdmin = `
  select id from (
    select m.org_id as id
    from memberships m
    join users u on u.id = m.user_id
    join organizations o on o.id = m.org_id
    where u.deleted_at is null and o.deleted_at is null and m.org_id > :after
    group by m.org_id
    having not bool_or(m.is_org_admin and u.disabled_at is null)
  ) organization
  where true`;

/** I14: whatever members and admins do at the same time. */
export const organizationsHaveAdmins: InvariantCheck = {
  invariant: 'I14',
  title: 'every organization with members has an admin who is not disabled',
  async run({ db }, _patience, found) {
    for await (const organizations of pagesOf(db, pick(OrganizationModel, 'id'), withoutAdmin)) {
      for (const { id } of organizations) found({ orgId: id, detail: 'Nobody of it can administer it.' });
    }
    return countRows(db, 'organizations', 'deleted_at is null');
  },
};
