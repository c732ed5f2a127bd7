import { type Actor, aclOf, type Visibility } from '#src/domain/visibility.ts';
import { appError, fieldError } from '#src/errors.ts';
import type { Db } from '#src/ports/database.ts';
import { createTeamsRepository } from './teams.repository.ts';

/** Who shall see a new row of the caller's, as it is stored beside the row. */
export type GrantedScope = { visibility: Visibility; teamIds: string[]; acl: string[] };

export function createTeamsService() {
  return {
    /**
     * Turns a wished visibility into a stored one: `team_level` names teams of the organization, and the caller's own
     * unless he is an org admin. Throws `validation_failed`, `team_not_found`.
     */
    async grantScope(
      db: Db,
      actor: Actor,
      wish: { visibility: Visibility; teamIds: readonly string[] },
    ): Promise<GrantedScope> {
      const teamIds = [...new Set(wish.teamIds)];
      const isForTeams = wish.visibility === 'team_level';
      if (isForTeams && teamIds.length === 0) throw fieldError('team_ids', 'is required for team_level', 'required');
      if (!isForTeams && teamIds.length > 0) throw fieldError('team_ids', 'is only for team_level');

      const live = new Set(await createTeamsRepository(db).liveIds(actor.orgId, teamIds));
      const isAllowed = (id: string) => live.has(id) && (actor.isOrgAdmin || actor.teamIds.includes(id));
      if (!teamIds.every(isAllowed)) throw appError('team_not_found');

      const { visibility } = wish;
      return {
        visibility,
        teamIds,
        acl: aclOf({ orgId: actor.orgId, createdBy: actor.userId, visibility, teamIds }),
      };
    },
  };
}

export type TeamsService = ReturnType<typeof createTeamsService>;
