import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  booleanColumn,
  defineRowShape,
  pickColumns,
  type SqlRow,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';

export class TeamModel extends tableModel('teams', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  name: textColumn(),
  disabledAt: timestampColumn().nullable(),
  createdAt: timestampColumn(),
}) {}

export class TeamMembershipModel extends tableModel(
  'team_memberships',
  {
    orgId: uuidColumn(),
    teamId: uuidColumn(),
    userId: uuidColumn(),
    isTeamAdmin: booleanColumn(),
    addedBy: uuidColumn().nullable(),
    addedAt: timestampColumn(),
    isEntrusted: booleanColumn(),
  },
  ['teamId', 'userId'],
) {}

const team = pickColumns(TeamModel, 'id', 'orgId', 'name', 'createdAt');

export type Team = SqlRow<typeof team>;

export type TeamList = { orgId: string; tier: OrganizationTier; items: Team[] };

/** A member of a team. `addedBy` and `addedAt` are about joining the team, not the organization. */
export const teamMemberRowShape = defineRowShape({
  userId: uuidColumn(),
  email: textColumn(),
  displayName: textColumn(),
  isTeamAdmin: booleanColumn(),
  isDisabled: booleanColumn(),
  addedBy: uuidColumn().nullable(),
  addedAt: timestampColumn(),
});

export type TeamMember = SqlRow<typeof teamMemberRowShape>;

export type TeamMemberList = { teamId: string; tier: OrganizationTier; items: TeamMember[] };

/** `isEntrusted`: whether admins of the team may manage the user's account. */
export type NewTeamMember = {
  orgId: string;
  teamId: string;
  userId: string;
  isTeamAdmin: boolean;
  isEntrusted: boolean;
  addedBy: string;
};
