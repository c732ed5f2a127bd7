/** Who may see a row: its owner alone, the members of its teams, or everybody of the organization. */
export type Visibility = 'personal' | 'team_level' | 'org_level';

/** The caller of a request, as the database knows him now (not as his token remembers him). */
export type Actor = {
  userId: string;
  orgId: string;
  isOrgAdmin: boolean;
  /** The teams that he is a member of. */
  teamIds: readonly string[];
  teamAdminOf: readonly string[];
  /** The teams whose content he may read: his own; for an org admin all of the organization, disabled ones too. */
  openTeamIds: readonly string[];
};

/** The caller, and the request that jobs, audits and logs are traced to. */
export type RequestActor = Actor & { requestId: string };

/** What decides about the access to a row. `createdBy` is null for what belongs to nobody in person, like a root folder. */
export type Scope = {
  orgId: string;
  createdBy: string | null;
  visibility: Visibility;
  teamIds: readonly string[];
};

/**
 * The keys that open a row, stored beside it as its `acl`. A row is readable when it is of the caller's organization
 * and one of its keys is one of the caller's (see {@link keysOf}). The owner's key always fits.
 */
export function aclOf(scope: Scope): string[] {
  const keys = scope.createdBy === null ? [] : [`user:${scope.createdBy}`];
  if (scope.visibility === 'team_level') keys.push(...scope.teamIds.map((id) => `team:${id}`));
  if (scope.visibility === 'org_level') keys.push(`org:${scope.orgId}`);
  return keys;
}

/** Opens what concerns those only who administer an organization. */
export const adminsKey = (orgId: string): string => `admins:${orgId}`;

/** The keys that a caller holds: his own, one for each team that is open to him, and his organization's. */
export function keysOf(actor: Pick<Actor, 'userId' | 'orgId' | 'openTeamIds' | 'isOrgAdmin'>): string[] {
  const keys = [`user:${actor.userId}`, ...actor.openTeamIds.map((id) => `team:${id}`), `org:${actor.orgId}`];
  return actor.isOrgAdmin ? [...keys, adminsKey(actor.orgId)] : keys;
}

/** Whether a caller has lost a key since `before`. */
export function hasLostKeys(before: Actor, now: Actor): boolean {
  const held = new Set(keysOf(now));
  return keysOf(before).some((key) => !held.has(key));
}

/** The widest circle that the keys of a row reach. */
export function visibilityOf(acl: readonly string[]): Visibility {
  if (acl.some((key) => key.startsWith('org:'))) return 'org_level';
  return acl.some((key) => key.startsWith('team:')) ? 'team_level' : 'personal';
}
