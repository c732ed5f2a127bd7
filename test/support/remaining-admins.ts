import { expect } from 'chai';
import type { Stack } from './stack.ts';

/** Fails when the organization has members, and none of them is an admin who can act. */
export async function expectAdmins({ container }: Stack, orgId: string): Promise<void> {
  const living: { isOrgAdmin: boolean; disabledAt: Date | null }[] = await container
    .db('memberships as m')
    .join('users as u', 'u.id', 'm.userId')
    .where('m.orgId', orgId)
    .whereNull('u.deletedAt')
    .select('m.isOrgAdmin', 'u.disabledAt');
  expect(living).not.deep.equal([]);
  expect(living.some(({ isOrgAdmin, disabledAt }) => isOrgAdmin && disabledAt === null)).equal(true);
}
