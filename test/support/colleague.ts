import type { Member } from './client.ts';
import type { Stack } from './stack.ts';

/**
 * A second, ordinary member of somebody's organization. He is moved there before his first request, because the API
 * remembers for some seconds what a user may do.
 */
export async function signUpColleague(stack: Stack, of: Member, name = 'Grace'): Promise<Member> {
  const colleague = await stack.signUp(name);
  const { db } = stack.container;
  await db('memberships').where({ userId: colleague.userId }).update({ orgId: of.orgId, isOrgAdmin: false });
  await db('folders').where({ ownerId: colleague.userId, systemRole: 'personal_root' }).update({ orgId: of.orgId });
  return { ...colleague, orgId: of.orgId };
}

/** A team of somebody's organization with these members, who must not have asked for anything yet. */
export async function createTeam(stack: Stack, orgId: string, members: readonly Member[]): Promise<string> {
  const teamId = crypto.randomUUID();
  const { db } = stack.container;
  await db('teams').insert({ id: teamId, orgId, name: `Team ${teamId}` });
  for (const member of members) await db('teamMemberships').insert({ orgId, teamId, userId: member.userId });
  return teamId;
}
