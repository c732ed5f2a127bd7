import { randomUUID } from 'node:crypto';
import { userSchema } from '#src/modules/members/members.schema.ts';
import { teamSchema } from '#src/modules/teams/teams.schema.ts';
import type { Member } from './client.ts';
import { freshEmail } from './fresh-email.ts';
import type { Stack } from './stack.ts';

const password = 'Correct-horse-1';

/**
 * Another member of an org admin's organization, signed in. Fields are those of POST /entity/members. The session is
 * opened without a look at the password, which would double the time.
 */
export async function signUpColleague(stack: Stack, of: Member, name = 'Grace', fields: object = {}): Promise<Member> {
  const email = freshEmail(name.toLowerCase());
  const sent = { email, password, display_name: name, ...fields };
  const { user_id: userId } = userSchema.parse((await of.post('/entity/members', sent, 201)).body);
  return { ...(await openSession(stack, { userId, orgId: of.orgId })), email, password, userId, orgId: of.orgId };
}

/** A team of an org admin's organization with these members. */
export async function createTeam(of: Member, members: readonly Member[] = []): Promise<string> {
  const { id } = teamSchema.parse((await of.post('/entity/teams', { name: `Team ${randomUUID()}` }, 201)).body);
  for (const { userId } of members) await of.put(`/entity/teams/${id}/members/${userId}`, {}, 200);
  return id;
}

async function openSession({ container, anonymous }: Stack, user: { userId: string; orgId: string }) {
  const { sessionId, refreshToken } = await container.sessions.open(container.db, user.userId, {
    network: '127.0.0.1',
    userAgent: null,
  });
  // Beside the user and his session, a token's claims are hints that nobody asks.
  const hints = { isOrgAdmin: false, teamIds: [], teamAdminOf: [], tier: 'free' };
  const token = await container.accessTokens.sign({ ...user, ...hints, sessionId });
  return { ...anonymous.withToken(token), refreshToken };
}
