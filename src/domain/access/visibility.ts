export type Visibility = 'personal' | 'team_level' | 'org_level';

/** The caller of a request. Read from the database for each request and not from the token, which may be outdated. */
export type Actor = {
  userId: string;
  orgId: string;
  isOrgAdmin: boolean;
  teamIds: readonly string[];
  teamAdminOf: readonly string[];
  /** Teams whose content the caller may read: their own; for org admins all teams, including disabled ones. */
  openTeamIds: readonly string[];
  /** Whether the caller may add documents and folders to the organization's folder tree. */
  contributesToOrganization: boolean;
};

export type RequestActor = Actor & { requestId: string };

/** What determines a row's access keys. `createdBy` is null for rows without an owner, such as root folders. */
export type RowOwnerAndVisibility = {
  orgId: string;
  createdBy: string | null;
  visibility: Visibility;
  teamIds: readonly string[];
};

/**
 * @returns the access keys of a row, stored in its column `acl`. A caller of the same organization may read the row if
 * they hold one of its keys (see {@link accessKeysOfActor}).
 */
export function accessKeysOfRow(scope: RowOwnerAndVisibility): string[] {
  const keys = scope.createdBy === null ? [] : [`user:${scope.createdBy}`];
  if (scope.visibility === 'team_level') keys.push(...scope.teamIds.map((id) => `team:${id}`));
  if (scope.visibility === 'org_level') keys.push(`org:${scope.orgId}`);
  return keys;
}

export const accessKeyOfOrgAdmins = (orgId: string): string => `admins:${orgId}`;

export function accessKeysOfActor(actor: Pick<Actor, 'userId' | 'orgId' | 'openTeamIds' | 'isOrgAdmin'>): string[] {
  const keys = [`user:${actor.userId}`, ...actor.openTeamIds.map((id) => `team:${id}`), `org:${actor.orgId}`];
  return actor.isOrgAdmin ? [...keys, accessKeyOfOrgAdmins(actor.orgId)] : keys;
}

export function hasLostAccessKeys(before: Actor, now: Actor): boolean {
  const held = new Set(accessKeysOfActor(now));
  return accessKeysOfActor(before).some((key) => !held.has(key));
}

export function visibilityOfAccessKeys(acl: readonly string[]): Visibility {
  if (acl.some((key) => key.startsWith('org:'))) return 'org_level';
  return acl.some((key) => key.startsWith('team:')) ? 'team_level' : 'personal';
}
