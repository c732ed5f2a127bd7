import { model } from '#src/adapters/postgres/base-model.ts';
import { boolean, bytea, integer, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';

export class UserModel extends model('users', {
  id: uuid(),
  email: text(),
  passwordHash: text().nullable(),
  firstName: text().nullable(),
  lastName: text().nullable(),
  displayName: text(),
  disabledAt: timestamp().nullable(),
  deletedAt: timestamp().nullable(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
  eraseDueAt: timestamp().nullable(),
  avatarUrl: text().nullable(),
  version: integer(),
}) {}

export class MembershipModel extends model(
  'memberships',
  {
    userId: uuid(),
    orgId: uuid(),
    isOrgAdmin: boolean(),
    addedBy: uuid().nullable(),
    addedAt: timestamp(),
  },
  'userId',
) {}

export class RefreshTokenFamilyModel extends model('refresh_token_families', {
  id: uuid(),
  userId: uuid(),
  expiresAt: timestamp(),
  revokedAt: timestamp().nullable(),
  createdAt: timestamp(),
  cutOffAt: timestamp().nullable(),
  userAgent: text().nullable(),
  networkHash: bytea().nullable(),
}) {}

export class RefreshTokenModel extends model(
  'refresh_tokens',
  {
    tokenHash: bytea(),
    familyId: uuid(),
    generation: integer(),
    expiresAt: timestamp(),
    usedAt: timestamp().nullable(),
    createdAt: timestamp(),
  },
  'tokenHash',
) {}

export class UserIdentityModel extends model(
  'user_identities',
  {
    issuer: text(),
    subject: text(),
    userId: uuid(),
    createdAt: timestamp(),
  },
  ['issuer', 'subject'],
) {}

export const accountShape = shape({
  userId: uuid(),
  email: text(),
  passwordHash: text().nullable(),
  firstName: text().nullable(),
  lastName: text().nullable(),
  displayName: text(),
  isDisabled: boolean(),
  orgId: uuid(),
  orgName: text(),
  tier: text<OrganizationTier>(),
  isOrgAdmin: boolean(),
});

export type Account = Row<typeof accountShape>;

export type NewUser = {
  userId: string;
  email: string;
  /** Null for a user who signs in only with the identity provider. */
  passwordHash: string | null;
  firstName: string | null;
  lastName: string | null;
  displayName: string;
};

/** `addedBy` is null for the founder of the organization. */
export type NewMembership = { orgId: string; isOrgAdmin: boolean; addedBy: string | null };

/** The client that sent a request: the network of its IP address, and its `User-Agent`. */
export type SignInClient = { network: string; userAgent: string | null };

export type SignInOrigin = { requestId: string; client: SignInClient };

export type SignInResult = {
  accessToken: string;
  expiresInSeconds: number;
  refreshToken: string;
  account: Account;
  isNewUser: boolean;
};
