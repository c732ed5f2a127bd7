import { type Actor, accessKeyOfOrgAdmins, accessKeysOfActor, visibilityOfAccessKeys } from './visibility.ts';

type InOrganization = { orgId: string };
type Keyed = InOrganization & { acl: readonly string[] };
type Owned = InOrganization & { createdBy: string | null };
type Shared = Keyed & Owned;
/**
 * A folder. `ownerId` is the user whose personal tree it is in, null in the trees of teams and of the organization;
 * `createdBy` made the folder.
 */
type FolderTarget = Keyed & { ownerId: string | null; createdBy: string };
/** A row that only one user may access, not even admins: a session or a connection. */
type Held = InOrganization & { userId: string };
type JobTarget = Shared & { kind: string; chatId: string | null };
/**
 * A user whom the actor wants to manage, with their teams. `isEntrusted`: the user was added to the team by a user who
 * was allowed to manage them. Team admins may add any member of the organization to their team, and must not gain the
 * right to manage that member by doing so.
 */
type Colleague = InOrganization & {
  isOrgAdmin: boolean;
  teams: readonly { teamId: string; isEntrusted: boolean }[];
};
type Team = InOrganization & { teamId: string };

const holdsKey = (actor: Actor, { acl }: Keyed): boolean => {
  const keys = new Set(accessKeysOfActor(actor));
  return acl.some((key) => keys.has(key));
};

const owns = (actor: Actor, { createdBy }: Owned): boolean => createdBy === actor.userId;

function manages(actor: Actor, row: Shared): boolean {
  if (owns(actor, row)) return true;
  const visibility = visibilityOfAccessKeys(row.acl);
  if (visibility === 'personal') return false;
  if (actor.isOrgAdmin) return true;
  return visibility === 'team_level' && actor.teamAdminOf.some((id) => row.acl.includes(`team:${id}`));
}

/** Whether the actor may change everything in the tree of the folder, whoever made it. */
const managesFolder = (actor: Actor, folder: FolderTarget): boolean =>
  manages(actor, { ...folder, createdBy: folder.ownerId });

/** Whether the actor may add documents and folders to the folder. Members contribute to the trees of their teams. */
function contributesToFolder(actor: Actor, folder: FolderTarget): boolean {
  if (managesFolder(actor, folder)) return true;
  const visibility = visibilityOfAccessKeys(folder.acl);
  if (visibility === 'org_level') return actor.contributesToOrganization;
  return visibility === 'team_level' && actor.teamIds.some((id) => folder.acl.includes(`team:${id}`));
}

const holds = (actor: Actor, { userId }: Held): boolean => userId === actor.userId;

type ResourceOf = {
  'organization:read': InOrganization;
  'organization:administer': InOrganization;
  'user:manage': Colleague;
  'session:end': Held;
  'team:list_members': Team;
  'team:manage_members': Team;
  /** To share content with a team. */
  'team:contribute': Team;
  'folder:read': Keyed;
  /** To add documents and folders to a folder. */
  'folder:contribute': FolderTarget;
  /** To rename, move or delete a folder. */
  'folder:write': FolderTarget;
  /** To remove from a folder what other users added. */
  'folder:manage': FolderTarget;
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

export type PolicyAction = keyof ResourceOf;

const rules: { [A in PolicyAction]: (actor: Actor, resource: ResourceOf[A]) => boolean } = {
  'organization:read': () => true,
  'organization:administer': ({ isOrgAdmin }) => isOrgAdmin,
  'user:manage': ({ isOrgAdmin, teamAdminOf }, user) => {
    if (isOrgAdmin) return true;
    if (user.isOrgAdmin || user.teams.length === 0) return false;
    return user.teams.every(({ teamId, isEntrusted }) => isEntrusted && teamAdminOf.includes(teamId));
  },
  'session:end': holds,
  'team:list_members': ({ isOrgAdmin, teamIds }, { teamId }) => isOrgAdmin || teamIds.includes(teamId),
  'team:manage_members': ({ isOrgAdmin, teamAdminOf }, { teamId }) => isOrgAdmin || teamAdminOf.includes(teamId),
  'team:contribute': ({ isOrgAdmin, teamIds }, { teamId }) => isOrgAdmin || teamIds.includes(teamId),
  'folder:read': holdsKey,
  'folder:contribute': contributesToFolder,
  'folder:write': (actor, folder) =>
    managesFolder(actor, folder) || (owns(actor, folder) && contributesToFolder(actor, folder)),
  'folder:manage': managesFolder,
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
    if (job.kind === 'reembed' || job.acl.includes(accessKeyOfOrgAdmins(job.orgId))) return actor.isOrgAdmin;
    return job.chatId === null ? manages(actor, job) : owns(actor, job);
  },
};

/**
 * Decides in memory whether an actor may perform an action on a resource. `whereReadableByActor` implements the
 * `…:read` actions in SQL. Always false for a resource of another organization.
 */
export function mayPerformAction<A extends PolicyAction>(actor: Actor, action: A, resource: ResourceOf[A]): boolean {
  return resource.orgId === actor.orgId && rules[action](actor, resource);
}
