import { boolean, integer, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { Tier } from '#src/domain/access/limits.ts';

export const profile = shape({
  userId: uuid(),
  email: text(),
  firstName: text().nullable(),
  lastName: text().nullable(),
  displayName: text(),
  hasPassword: boolean(),
  /** The user has uploaded one. */
  hasAvatar: boolean(),
  /** Where the identity provider shows a picture of the user. */
  avatarUrl: text().nullable(),
  version: integer(),
});

export type Profile = Row<typeof profile>;

/** What is undefined stays; null takes a name away. */
export type ProfileChange = {
  firstName?: string | null | undefined;
  lastName?: string | null | undefined;
  displayName?: string | undefined;
};

export const membership = shape({
  orgId: uuid(),
  orgName: text(),
  tier: text<Tier>(),
  userId: uuid(),
  isOrgAdmin: boolean(),
});

export const teamOfUser = shape({ teamId: uuid(), name: text(), isTeamAdmin: boolean(), addedAt: timestamp() });

export type Membership = Row<typeof membership> & { teams: Row<typeof teamOfUser>[] };
