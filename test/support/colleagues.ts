import type { ApiClient, Member } from './client.ts';
import { freshEmail } from './fresh-email.ts';
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

const password = 'Correct-horse-1';

/** Adds a user to the organization of its admin, and signs him in. */
export async function addMember(stack: Stack, orgAdmin: Member, fields: object = {}): Promise<Member> {
  const email = freshEmail();
  const { body } = await orgAdmin.post('/entity/members', { email, password, ...fields }, 201);
  const { user_id: userId } = body as { user_id: string };
  const tokens = Object((await stack.anonymous.post('/auth/login', { username: email, password }, 200)).body);
  const client = stack.anonymous.withToken(tokens.access_token);
  return { ...client, email, password, refreshToken: tokens.refresh_token, userId, orgId: orgAdmin.orgId };
}

export async function createCast(stack: Stack): Promise<Cast> {
  const orgAdmin = await stack.signUp('Olga');
  // Room for as many as a test likes.
  await stack.container.db('organizations').where({ id: orgAdmin.orgId }).update({ tier: 'max' });
  const { body } = await orgAdmin.post('/entity/teams', { name: 'Red' }, 201);
  const redTeamId = (body as { id: string }).id;
  const inRed = { team_id: redTeamId };
  const disabled = await addMember(stack, orgAdmin, inRed);
  await orgAdmin.post(`/entity/users/${disabled.userId}/disable`, undefined, 204);
  return {
    owner: await addMember(stack, orgAdmin, inRed),
    sameTeam: await addMember(stack, orgAdmin, inRed),
    sameOrganization: await addMember(stack, orgAdmin),
    teamAdmin: await addMember(stack, orgAdmin, { ...inRed, is_team_admin: true }),
    orgAdmin,
    otherOrganization: await stack.signUp('Otto'),
    disabled,
    anonymous: stack.anonymous,
    redTeamId,
  };
}
