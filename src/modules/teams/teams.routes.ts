import { z } from 'zod';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { createdAnswer, noContentAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { TeamMembersService } from './team-members.service.ts';
import {
  addTeamMemberBody,
  createTeamBody,
  teamAdminBody,
  teamListSchema,
  teamMemberListSchema,
  teamMemberSchema,
  teamSchema,
  toTeamDto,
  toTeamListDto,
  toTeamMemberDto,
  toTeamMemberListDto,
} from './teams.schema.ts';
import type { TeamsService } from './teams.service.ts';

const teamParams = z.strictObject({ team_id: uuidPathParam('team_not_found') });
const memberParams = z.strictObject({ ...teamParams.shape, user_id: uuidPathParam('member_not_found') });

/** `POST /entity/teams/:team_id/members` is in `members.routes`, because it creates a user. */
export function teamsRoutes(teams: TeamsService, members: TeamMembersService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/entity/teams',
      operationId: 'listTeams',
      tag: 'teams',
      summary: 'List the teams of your organization',
      access: 'organization:read',
      responses: { 200: { description: 'The teams, sorted by name', schema: teamListSchema } },
      handle: async ({ actor }) => okAnswer(toTeamListDto(await teams.list(actor))),
    }),
    defineRoute({
      method: 'post',
      path: '/entity/teams',
      operationId: 'createTeam',
      tag: 'teams',
      summary: 'Create a team and its root folder',
      access: 'organization:administer',
      idempotent: true,
      body: createTeamBody,
      responses: { 201: { description: 'The new team', schema: teamSchema } },
      errors: ['name_taken', 'team_not_found'],
      handle: async ({ actor, body, newId }) => createdAnswer(toTeamDto(await teams.create(actor, newId, body.name))),
    }),
    defineRoute({
      method: 'delete',
      path: '/entity/teams/:team_id',
      operationId: 'disableTeam',
      tag: 'teams',
      summary: 'Disable a team; content shared with it stays readable for org admins only',
      access: 'organization:administer',
      params: teamParams,
      responses: { 204: { description: 'The team is disabled' } },
      errors: ['team_not_found'],
      handle: async ({ actor, params: { team_id } }) => {
        await teams.disable(actor, team_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'get',
      path: '/entity/teams/:team_id/members',
      operationId: 'listTeamMembers',
      tag: 'teams',
      summary: 'List the members of a team',
      access: 'team:list_members',
      params: teamParams,
      responses: { 200: { description: 'The members, longest-standing first', schema: teamMemberListSchema } },
      errors: ['team_not_found'],
      handle: async ({ actor, params: { team_id } }) =>
        okAnswer(toTeamMemberListDto(await members.list(actor, team_id))),
    }),
    defineRoute({
      method: 'put',
      path: '/entity/teams/:team_id/members/:user_id',
      operationId: 'addTeamMember',
      tag: 'teams',
      summary: 'Add a member of the organization to a team, or promote a team member to team admin',
      access: 'team:manage_members',
      params: memberParams,
      body: addTeamMemberBody,
      responses: { 200: { description: 'The member of the team', schema: teamMemberSchema } },
      errors: ['team_not_found', 'member_not_found'],
      handle: async ({ actor, params: { team_id, user_id }, body: { is_team_admin } }) =>
        okAnswer(toTeamMemberDto(await members.add(actor, team_id, user_id, is_team_admin))),
    }),
    defineRoute({
      method: 'patch',
      path: '/entity/teams/:team_id/members/:user_id/team-admin',
      operationId: 'setTeamAdmin',
      tag: 'teams',
      summary: 'Grant or revoke the role of team admin',
      access: 'team:manage_members',
      params: memberParams,
      body: teamAdminBody,
      responses: { 200: { description: 'The member of the team', schema: teamMemberSchema } },
      errors: ['team_not_found', 'member_not_found'],
      handle: async ({ actor, params: { team_id, user_id }, body: { is_team_admin } }) =>
        okAnswer(toTeamMemberDto(await members.setTeamAdmin(actor, team_id, user_id, is_team_admin))),
    }),
    defineRoute({
      method: 'delete',
      path: '/entity/teams/:team_id/members/:user_id',
      operationId: 'removeTeamMember',
      tag: 'teams',
      summary: 'Remove a member from a team',
      access: 'team:manage_members',
      params: memberParams,
      responses: { 204: { description: 'The user is no longer in the team' } },
      errors: ['team_not_found', 'member_not_found'],
      handle: async ({ actor, params: { team_id, user_id } }) => {
        await members.remove(actor, team_id, user_id);
        return noContentAnswer();
      },
    }),
  ];
}
