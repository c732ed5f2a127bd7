import { ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import { organizationSchema, renameOrganizationBody, toOrganizationDto } from './organization.schema.ts';
import type { OrganizationService } from './organization.service.ts';

export function organizationRoutes(organizations: OrganizationService): Route[] {
  return [
    route({
      method: 'patch',
      path: '/entity/org',
      operationId: 'renameOrganization',
      tag: 'organization',
      summary: 'Rename the organization and its root folder',
      access: 'organization:administer',
      body: renameOrganizationBody,
      responses: { 200: { description: 'The organization as it is now', schema: organizationSchema } },
      handle: async ({ actor, body }) => ok(toOrganizationDto(actor, await organizations.rename(actor, body.name))),
    }),
  ];
}
