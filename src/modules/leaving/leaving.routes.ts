import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { noContent } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import { deleteAccountBody } from './leaving.schema.ts';
import type { LeavingService } from './leaving.service.ts';

export function leavingRoutes(leaving: LeavingService): Route[] {
  return [
    route({
      method: 'delete',
      path: '/entity/members/:user_id',
      operationId: 'removeMember',
      tag: 'organization',
      summary: 'End the account of a member; what is shared stays, what is personal is erased later',
      access: 'organization:administer',
      params: z.strictObject({ user_id: idParam('member_not_found') }),
      responses: { 204: { description: 'He is gone' } },
      errors: ['member_not_found', 'last_org_admin', 'forbidden'],
      handle: async ({ actor, params: { user_id } }) => {
        await leaving.removeMember(actor, user_id);
        return noContent();
      },
    }),
    route({
      method: 'delete',
      path: '/auth/account',
      operationId: 'deleteAccount',
      tag: 'auth',
      summary: 'Delete your account, and your organization with it where you are its only member',
      access: 'user',
      limits: [{ limit: 'login', by: 'user' }],
      body: deleteAccountBody,
      responses: { 204: { description: 'It is deleted' } },
      errors: ['wrong_password', 'last_org_admin'],
      handle: async ({ actor, body }) => {
        await leaving.deleteAccount(actor, body.password);
        return noContent();
      },
    }),
    route({
      method: 'delete',
      path: '/entity/org',
      operationId: 'deleteOrganization',
      tag: 'organization',
      summary: 'Delete the organization and the accounts of all its members',
      access: 'organization:administer',
      responses: { 204: { description: 'It is deleted' } },
      handle: async ({ actor }) => {
        await leaving.deleteOrganization(actor);
        return noContent();
      },
    }),
  ];
}
