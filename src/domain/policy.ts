import { type Actor, adminsKey, keysOf, visibilityOf } from './visibility.ts';

type InOrganization = { orgId: string };
/** A row with the keys that open it. */
type Keyed = InOrganization & { acl: readonly string[] };
/** Nobody in person owns what `createdBy` is null for, like a root folder. */
type Owned = InOrganization & { createdBy: string | null };
type Shared = Keyed & Owned;
/** What is one user's alone, whatever others administer. */
type Held = InOrganization & { userId: string };
/** What decides about a job is the thing that it works on. */
type JobTarget = Shared & { kind: string; chatId: string | null };
/**
 * A user with the live teams that he is in. He is entrusted to a team when somebody who managed him has put him there:
 * a team admin may take any member of the organization into his team, and must not come to manage him by that.
 */
type Colleague = InOrganization & {
  isOrgAdmin: boolean;
  teams: readonly { teamId: string; isEntrusted: boolean }[];
};
type Team = InOrganization & { teamId: string };

const holdsKey = (actor: Actor, { acl }: Keyed): boolean => {
  const keys = new Set(keysOf(actor));
  return acl.some((key) => keys.has(key));
};

const owns = (actor: Actor, { createdBy }: Owned): boolean => createdBy === actor.userId;

/** The owner, and for what is shared org admins and, for their team, team admins. */
function manages(actor: Actor, row: Shared): boolean {
  if (owns(actor, row)) return true;
  const visibility = visibilityOf(row.acl);
  if (visibility === 'personal') return false;
  if (actor.isOrgAdmin) return true;
  return visibility === 'team_level' && actor.teamAdminOf.some((id) => row.acl.includes(`team:${id}`));
}

const holds = (actor: Actor, { userId }: Held): boolean => userId === actor.userId;

type ResourceOf = {
  'organization:read': InOrganization;
  'organization:administer': InOrganization;
  'user:manage': Colleague;
  'session:end': Held;
  'team:list_members': Team;
  'team:manage_members': Team;
  'folder:read': Keyed;
  'folder:write': Shared;
  'document:read': Keyed;
  'document:write': Shared;
  'agent:read': Keyed;
  'agent:write': Shared;
  'agent:delete': Shared;
  'draft:read': Keyed;
  'draft:write': Owned;
  'chat:read': Keyed;
  'chat:write': Owned;
  'connection:read': Held;
  'connection:write': Held;
  'job:read': Keyed;
  'job:write': JobTarget;
};

/** A resource and what is done to it. */
export type Action = keyof ResourceOf;

/** Who may do what, within one organization. */
const rules: { [A in Action]: (actor: Actor, resource: ResourceOf[A]) => boolean } = {
  'organization:read': () => true,
  'organization:administer': ({ isOrgAdmin }) => isOrgAdmin,
  // To change, disable and enable a user, and to set his password.
  'user:manage': ({ isOrgAdmin, teamAdminOf }, user) => {
    if (isOrgAdmin) return true;
    if (user.isOrgAdmin || user.teams.length === 0) return false;
    return user.teams.every(({ teamId, isEntrusted }) => isEntrusted && teamAdminOf.includes(teamId));
  },
  'session:end': holds,
  'team:list_members': ({ isOrgAdmin, teamIds }, { teamId }) => isOrgAdmin || teamIds.includes(teamId),
  'team:manage_members': ({ isOrgAdmin, teamAdminOf }, { teamId }) => isOrgAdmin || teamAdminOf.includes(teamId),
  'folder:read': holdsKey,
  'folder:write': manages,
  'document:read': holdsKey,
  'document:write': manages,
  'agent:read': holdsKey,
  'agent:write': manages,
  'agent:delete': (actor, agent) => owns(actor, agent) || (actor.isOrgAdmin && manages(actor, agent)),
  'draft:read': holdsKey,
  'draft:write': owns,
  'chat:read': holdsKey,
  'chat:write': owns,
  'connection:read': holds,
  'connection:write': holds,
  'job:read': holdsKey,
  'job:write': (actor, job) => {
    if (job.kind === 'reembed' || job.acl.includes(adminsKey(job.orgId))) return actor.isOrgAdmin;
    return job.chatId === null ? manages(actor, job) : owns(actor, job);
  },
};

/**
 * May the caller do this? The one answer for a row in memory; `readableBy` says the same of `…:read` in SQL. Never for
 * a resource of another organization.
 */
export function can<A extends Action>(actor: Actor, action: A, resource: ResourceOf[A]): boolean {
  return resource.orgId === actor.orgId && rules[action](actor, resource);
}
