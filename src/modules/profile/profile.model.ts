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

export const profileRowShape = defineRowShape({
  userId: uuidColumn(),
  email: textColumn(),
  firstName: textColumn().nullable(),
  lastName: textColumn().nullable(),
  displayName: textColumn(),
  hasPassword: booleanColumn(),
  hasAvatar: booleanColumn(),
  avatarUrl: textColumn().nullable(),
  version: integerColumn(),
});

export type Profile = SqlRow<typeof profileRowShape>;

export type ProfileChange = {
  firstName?: string | null | undefined;
  lastName?: string | null | undefined;
  displayName?: string | undefined;
};

export const membershipRowShape = defineRowShape({
  orgId: uuidColumn(),
  orgName: textColumn(),
  tier: textColumn<OrganizationTier>(),
  userId: uuidColumn(),
  isOrgAdmin: booleanColumn(),
  teamAdminsContribute: booleanColumn(),
});

export const userTeamRowShape = defineRowShape({
  teamId: uuidColumn(),
  name: textColumn(),
  isTeamAdmin: booleanColumn(),
  addedAt: timestampColumn(),
});

export type Membership = SqlRow<typeof membershipRowShape> & { teams: SqlRow<typeof userTeamRowShape>[] };

export class AvatarModel extends tableModel(
  'avatars',
  {
    orgId: uuidColumn(),
    userId: uuidColumn(),
    content: byteaColumn(),
    sha256: textColumn(),
    updatedAt: timestampColumn(),
  },
  'userId',
) {}

export type Avatar = Pick<SqlRow<typeof AvatarModel>, 'content' | 'sha256'>;

/** The avatar that other members see: the uploaded one, else the picture at the identity provider. */
export type VisibleAvatar = ({ kind: 'stored' } & Avatar) | { kind: 'external'; url: string };

/** An uploaded image in memory. Pass it to `put` or `discard` of the service, which release its upload slot. */
export type AvatarUpload = { fileName: string; content: Buffer; sha256: string };
