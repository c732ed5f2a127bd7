import type { ApiClient, Member } from './client.ts';
import { signUpColleague } from './colleague.ts';
import type { Stack } from './stack.ts';

/** Everybody who could ask for a thing of the red team's that `owner` has made. */
export type Cast = {
  owner: Member;
  sameTeam: Member;
  sameOrganization: Member;
  teamAdmin: Member;
  orgAdmin: Member;
  otherOrganization: Member;
  disabled: Member;
  anonymous: ApiClient;
  redTeamId: string;
};

/** An organization with a red team, and who stands in every relation to it. */
export async function createCast(stack: Stack): Promise<Cast> {
  const orgAdmin = await stack.signUp('Olga');
  // Room for as many as a test likes.
  await stack.container.db('organizations').where({ id: orgAdmin.orgId }).update({ tier: 'max' });
  const { body } = await orgAdmin.post('/entity/teams', { name: 'Red' }, 201);
  const redTeamId = (body as { id: string }).id;
  const inRed = { team_id: redTeamId };
  const join = (fields = {}) => signUpColleague(stack, orgAdmin, 'Grace', fields);
  const disabled = await join(inRed);
  await orgAdmin.post(`/entity/users/${disabled.userId}/disable`, undefined, 204);
  return {
    owner: await join(inRed),
    sameTeam: await join(inRed),
    sameOrganization: await join(),
    teamAdmin: await join({ ...inRed, is_team_admin: true }),
    orgAdmin,
    otherOrganization: await stack.signUp('Otto'),
    disabled,
    anonymous: stack.anonymous,
    redTeamId,
  };
}
