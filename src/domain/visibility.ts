/** Who may see a row: its owner alone, the members of its teams, or everybody of the organization. */
export type Visibility = 'personal' | 'team_level' | 'org_level';

/** The caller of a request, as the database knows him now (not as his token remembers him). */
export type Actor = {
  userId: string;
  orgId: string;
  isOrgAdmin: boolean;
  teamIds: readonly string[];
  teamAdminOf: readonly string[];
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

/** The keys that a caller holds: his own, one for each of his teams, and his organization's. */
export function keysOf(actor: Pick<Actor, 'userId' | 'orgId' | 'teamIds'>): string[] {
  return [`user:${actor.userId}`, ...actor.teamIds.map((id) => `team:${id}`), `org:${actor.orgId}`];
}

/** The widest circle that the keys of a row reach. */
export function visibilityOf(acl: readonly string[]): Visibility {
  if (acl.some((key) => key.startsWith('org:'))) return 'org_level';
  return acl.some((key) => key.startsWith('team:')) ? 'team_level' : 'personal';
}

/** The same rule for a row that is already in memory. */
export function canRead(actor: Actor, row: { orgId: string; acl: readonly string[] }): boolean {
  if (row.orgId !== actor.orgId) return false;
  const keys = new Set(keysOf(actor));
  return row.acl.some((key) => keys.has(key));
}

/** The owner writes; what is shared may also be managed by org admins and, for their team, by team admins. */
export function canManage(actor: Actor, scope: Scope): boolean {
  if (scope.orgId !== actor.orgId) return false;
  if (scope.createdBy === actor.userId) return true;
  if (scope.visibility === 'personal') return false;
  if (actor.isOrgAdmin) return true;
  return scope.visibility === 'team_level' && scope.teamIds.some((id) => actor.teamAdminOf.includes(id));
}

/** The same for a row that knows its keys only. */
export function canWrite(actor: Actor, row: { orgId: string; createdBy: string; acl: readonly string[] }): boolean {
  const teamIds = row.acl.flatMap((key) => (key.startsWith('team:') ? [key.slice('team:'.length)] : []));
  return canManage(actor, { ...row, visibility: visibilityOf(row.acl), teamIds });
}

/** System folders are nobody's own but the personal root: org and team admins manage the others. */
export function canWriteToFolder(
  actor: Actor,
  folder: Pick<Scope, 'orgId' | 'visibility'> & { ownerId: string | null; teamId: string | null },
): boolean {
  const { orgId, visibility, ownerId, teamId } = folder;
  return canManage(actor, { orgId, createdBy: ownerId, visibility, teamIds: teamId === null ? [] : [teamId] });
}
