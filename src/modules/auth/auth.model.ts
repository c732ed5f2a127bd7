import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  booleanColumn,
  byteaColumn,
  defineRowShape,
  integerColumn,
  type SqlRow,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';

export class UserModel extends tableModel('users', {
  id: uuidColumn(),
  email: textColumn(),
  passwordHash: textColumn().nullable(),
  firstName: textColumn().nullable(),
  lastName: textColumn().nullable(),
  displayName: textColumn(),
  disabledAt: timestampColumn().nullable(),
  deletedAt: timestampColumn().nullable(),
  createdAt: timestampColumn(),
  updatedAt: timestampColumn(),
  eraseDueAt: timestampColumn().nullable(),
  avatarUrl: textColumn().nullable(),
  version: integerColumn(),
  /** The user as whom an API key acts. Such users are in no list of members and cannot sign in. */
  isApiKey: booleanColumn(),
}) {}

export class MembershipModel extends tableModel(
  'memberships',
  {
    userId: uuidColumn(),
    orgId: uuidColumn(),
    isOrgAdmin: booleanColumn(),
    /** Whether the user may add to the organization's folder tree without being an org admin. */
    contributesToOrganization: booleanColumn(),
    addedBy: uuidColumn().nullable(),
    addedAt: timestampColumn(),
  },
  'userId',
) {}

export class RefreshTokenFamilyModel extends tableModel('refresh_token_families', {
  id: uuidColumn(),
  userId: uuidColumn(),
  expiresAt: timestampColumn(),
  revokedAt: timestampColumn().nullable(),
  createdAt: timestampColumn(),
  cutOffAt: timestampColumn().nullable(),
  userAgent: textColumn().nullable(),
  networkHash: byteaColumn().nullable(),
}) {}

export class RefreshTokenModel extends tableModel(
  'refresh_tokens',
  {
    tokenHash: byteaColumn(),
    familyId: uuidColumn(),
    generation: integerColumn(),
    expiresAt: timestampColumn(),
    usedAt: timestampColumn().nullable(),
    createdAt: timestampColumn(),
  },
  'tokenHash',
) {}

export class UserIdentityModel extends tableModel(
  'user_identities',
  {
    issuer: textColumn(),
    subject: textColumn(),
    userId: uuidColumn(),
    createdAt: timestampColumn(),
  },
  ['issuer', 'subject'],
) {}

export const accountRowShape = defineRowShape({
  userId: uuidColumn(),
  email: textColumn(),
  passwordHash: textColumn().nullable(),
  firstName: textColumn().nullable(),
  lastName: textColumn().nullable(),
  displayName: textColumn(),
  isDisabled: booleanColumn(),
  orgId: uuidColumn(),
  orgName: textColumn(),
  tier: textColumn<OrganizationTier>(),
  isOrgAdmin: booleanColumn(),
});

export type Account = SqlRow<typeof accountRowShape>;

export type NewUser = {
  userId: string;
  email: string;
  /** Hash of the user's password; null for a user who signs in with the identity provider only. */
  passwordHash: string | null;
  firstName: string | null;
  lastName: string | null;
  displayName: string;
  isApiKey?: boolean;
};

export type NewMembership = {
  orgId: string;
  isOrgAdmin: boolean;
  contributesToOrganization?: boolean;
  addedBy: string | null;
};

export type SignInDevice = { network: string; userAgent: string | null };

export type SignInRequestOrigin = { requestId: string; client: SignInDevice };

export type SignInResult = {
  accessToken: string;
  expiresInSeconds: number;
  refreshToken: string;
  account: Account;
  isNewUser: boolean;
};
