import { model } from '#src/adapters/postgres/base-model.ts';
import { boolean, bytea, integer, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';

export const profileShape = shape({
  userId: uuid(),
  email: text(),
  firstName: text().nullable(),
  lastName: text().nullable(),
  displayName: text(),
  hasPassword: boolean(),
  hasAvatar: boolean(),
  /** URL of the user's picture at the identity provider. */
  avatarUrl: text().nullable(),
  version: integer(),
});

export type Profile = Row<typeof profileShape>;

/** Changed names: undefined keeps a name, null removes it. */
export type ProfileChange = {
  firstName?: string | null | undefined;
  lastName?: string | null | undefined;
  displayName?: string | undefined;
};

export const membershipShape = shape({
  orgId: uuid(),
  orgName: text(),
  tier: text<OrganizationTier>(),
  userId: uuid(),
  isOrgAdmin: boolean(),
});

export const userTeamShape = shape({ teamId: uuid(), name: text(), isTeamAdmin: boolean(), addedAt: timestamp() });

export type Membership = Row<typeof membershipShape> & { teams: Row<typeof userTeamShape>[] };

export class AvatarModel extends model(
  'avatars',
  {
    orgId: uuid(),
    userId: uuid(),
    content: bytea(),
    sha256: text(),
    updatedAt: timestamp(),
  },
  'userId',
) {}

/** An avatar is a square WebP of at most 512 pixels per side. */
export type Avatar = Pick<Row<typeof AvatarModel>, 'content' | 'sha256'>;

/** The avatar that other members see: the uploaded one, else the picture at the identity provider. */
export type VisibleAvatar = ({ kind: 'stored' } & Avatar) | { kind: 'external'; url: string };

/** An uploaded image in memory. Pass it to `put` or `discard` of the service, which release its upload slot. */
export type AvatarUpload = { fileName: string; content: Buffer; sha256: string };
