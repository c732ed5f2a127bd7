import { request } from 'node:http';
import { expect } from 'chai';
import { z } from 'zod';
import { noContentAnswer } from '#src/http/response/answers.ts';
import { defineRoute } from '#src/http/routing/route.ts';
import { serveRoutes } from '#test/support/served-routes.ts';

describe('concurrent requests', () => {
  it('count until their handler has ended, even after the client disconnected', async () => {
    const gate = Promise.withResolvers<void>();
    const left = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const work = defineRoute({
      method: 'post',
      path: '/work',
      operationId: 'work',
      tag: 'work',
      summary: 'Work of the tests',
      access: 'user',
      body: z.strictObject({}),
      responses: { 204: { description: 'Done' } },
      handle: async ({ signal }) => {
        signal.addEventListener('abort', () => left.resolve());
        begun.resolve();
        await gate.promise;
        return noContentAnswer();
      },
    });
    const actor = { userId: 'u', orgId: 'o', isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    const served = await serveRoutes([work], {
      authenticate: async () => ({ actor, sessionId: 's', actorNow: async () => actor }),
      requestLimit: { perUser: 1, perOrganization: 1 },
    });
    const ask = async () => (await fetch(`${served.baseUrl}/work`, { method: 'POST' })).status;

    const leaving = request(`${served.baseUrl}/work`, { method: 'POST' }).on('error', () => undefined);
    leaving.end();
    await begun.promise;
    leaving.destroy();
    await left.promise;
    expect(await ask()).equal(429);
    gate.resolve();
    let status = 429;
    while (status === 429) status = await ask();
    expect(status).equal(204);
    await served.close();
  });
});
