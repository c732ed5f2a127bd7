import { expect } from 'chai';
import { appError } from '#src/errors.ts';
import { defineRoute } from '#src/http/routing/route.ts';
import { createClient } from '#test/support/client.ts';
import { serveRoutes } from '#test/support/served-routes.ts';

describe('the client of the tests', () => {
  it('takes the problems that a route declares, and no others', async () => {
    const refuse = (path: string, code: 'name_taken' | 'email_taken') =>
      defineRoute({
        ...{ method: 'get', path, operationId: `get${path}`, tag: 'things', summary: 'A refusal', access: 'public' },
        responses: { 204: { description: 'Never' } },
        errors: ['name_taken'],
        handle: () => {
          throw appError(code);
        },
      });
    const routes = [refuse('/declared', 'name_taken'), refuse('/undeclared', 'email_taken')];
    const served = await serveRoutes(routes);
    try {
      const client = createClient({ baseUrl: served.baseUrl, routes, token: null });
      await client.get('/declared', 409);
      const fault: unknown = await client.get('/undeclared', 409).catch((error: unknown) => error);
      expect(fault).instanceOf(Error).property('message').contains('email_taken');
    } finally {
      await served.close();
    }
  });
});
