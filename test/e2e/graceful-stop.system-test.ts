import { once } from 'node:events';
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { expect } from 'chai';
import { type ServiceProcess, startApiProcess } from '#test/support/child-processes.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('an API process behind a load balancer that is told to end', function () {
  this.timeout(120_000);
  let stack: Stack;
  let api: ServiceProcess & { baseUrl: string };
  /** As a balancer keeps its connections. */
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  before(async () => {
    stack = await startStack({}, { workers: 'all' });
    api = await startApiProcess(stack, { SHUTDOWN_DELAY_SECONDS: '10' });
  });
  after(async () => {
    agent.destroy();
    await api.stop();
    await stack.close();
  });

  const get = async (path: string) => {
    const asked = httpRequest(`${api.baseUrl}${path}`, { agent });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    await json(response);
    return { status: response.statusCode, isReused: asked.reusedSocket, headers: response.headers };
  };

  it('is not ready first, serves what still comes, ends connections by answers, and lets an upload end', async () => {
    const member = await stack.signUp();
    await until('it is ready', async () => (await get('/readyz')).status === 200);
    expect((await get('/healthz')).headers).include({ connection: 'keep-alive', 'keep-alive': 'timeout=65' });

    const upload = httpRequest(`${api.baseUrl}/documents`, {
      method: 'POST',
      headers: {
        authorization: (await tokenOf(member)) ?? '',
        'content-type': 'multipart/form-data; boundary=cut',
      },
    });
    const uploaded = once(upload, 'response') as Promise<[IncomingMessage]>;
    upload.write('--cut\r\ncontent-disposition: form-data; name="file"; filename="slow.txt"\r\n\r\nIts first half, ');
    // On a connection of its own that is used no more.
    const idle = new Agent({ keepAlive: true });
    const idleRequest = httpRequest(`${api.baseUrl}/healthz`, { agent: idle });
    const [idleResponse] = (await once(idleRequest.end(), 'response')) as [IncomingMessage];
    const idleEnds = once(idleResponse.socket, 'close');
    await json(idleResponse);

    const stopped = api.stop();
    await until('the log says that it shuts down', async () => api.log().includes('the API is shutting down'));
    const probe = await get('/readyz');
    expect([probe.status, probe.isReused, probe.headers.connection]).deep.equal([503, true, 'close']);
    const late = await get('/healthz');
    expect([late.status, late.isReused, late.headers.connection]).deep.equal([200, false, 'close']);

    // Nothing new is taken from here on, and what is under way ends.
    await idleEnds;
    upload.end('and its second.\r\n--cut--\r\n');
    const [answer] = await uploaded;
    expect([answer.statusCode, answer.headers.connection]).deep.equal([201, 'close']);
    const { id } = (await json(answer)) as { id: string };
    await stopped;
    expect(await api.ended).equal('exit code 0');
    expect((await member.get(`/documents/${id}/file`, 200)).body).equal('Its first half, and its second.');
    idle.destroy();
  });

  async function tokenOf(member: { email: string; password: string }): Promise<string> {
    const { body } = await stack.anonymous.post(
      '/auth/login',
      { username: member.email, password: member.password },
      200,
    );
    return `Bearer ${(body as { access_token: string }).access_token}`;
  }
});
