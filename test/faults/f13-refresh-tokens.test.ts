import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const TIMES = 20;

describe('F13: a refresh token that is used many times, before two processes of the API', () => {
  let stacks: Stack[];

  before(async () => {
    const first = await startStack({}, { workers: false });
    const second = await startStack({ DATABASE_URL: first.config.database.url }, { workers: false });
    stacks = [first, second];
  });
  after(async () => {
    for (const stack of stacks.toReversed()) await stack.close();
  });

  type Outcome = { status: number; code: string | undefined; tokens: { access: string; refresh: string } | undefined };

  /** The first, the second, the first … process is asked. */
  async function refresh(token: string, turn: number): Promise<Outcome> {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ refresh_token: token });
    const client = stacks[turn % stacks.length]?.anonymous;
    const answer = await client?.raw('/auth/refresh_tokens', { method: 'POST', headers, body });
    const data = Object(await answer?.json());
    const pair = answer?.status === 200 ? tokenResponse.parse(data) : undefined;
    return {
      status: answer?.status ?? 0,
      code: data.code,
      tokens: pair && { access: pair.access_token, refresh: pair.refresh_token },
    };
  }
  const often = (token: string) => Promise.all(Array.from({ length: TIMES }, (_, turn) => refresh(token, turn)));
  const renewed = async (token: string) => {
    const { tokens } = await refresh(token, 0);
    if (tokens === undefined) throw new Error('The refresh token was refused.');
    return tokens;
  };
  const session = async () => {
    const member = await stacks[0]?.signUp();
    if (member === undefined) throw new Error('There is no process.');
    return member;
  };

  /** I10: what belonged to a revoked family yields nothing, however often and wherever it is tried. */
  async function expectDead(refreshTokens: readonly string[], accessTokens: readonly string[]): Promise<void> {
    for (const outcomes of await Promise.all(refreshTokens.map(often))) {
      for (const { status, tokens } of outcomes)
        expect({ status, tokens }).deep.equal({ status: 401, tokens: undefined });
    }
    for (const { anonymous } of stacks) {
      for (const token of accessTokens) {
        const isRefused = async () => (await anonymous.withToken(token).raw('/folders')).status === 401;
        await until('the access token is refused', isRefused);
      }
    }
  }

  it('twenty times at once: one success, and the session lives on', async () => {
    const { refreshToken } = await session();
    const outcomes = await often(refreshToken);
    const [winner, ...others] = outcomes.flatMap(({ tokens }) => tokens ?? []);
    expect(others).deep.equal([]);
    expect(outcomes.filter(({ code }) => code === 'refresh_reused')).length(TIMES - 1);
    await renewed(winner?.refresh ?? '');
  });

  it('once more when it is old: the whole family is revoked (I10)', async () => {
    const { refreshToken } = await session();
    const second = await renewed(refreshToken);
    const third = await renewed(second.refresh);
    expect(await refresh(refreshToken, 1)).include({ status: 401, code: 'refresh_reused' });
    await expectDead([refreshToken, second.refresh, third.refresh], [second.access, third.access]);
  });

  it('old and newest at once: of all that was given out meanwhile nothing is left (I10)', async () => {
    const { refreshToken } = await session();
    const second = await renewed(refreshToken);
    const third = await renewed(second.refresh);
    const [replays, honest] = await Promise.all([often(refreshToken), often(third.refresh)]);
    expect(replays.filter(({ status }) => status !== 401)).deep.equal([]);
    const given = honest.flatMap(({ tokens }) => tokens ?? []);
    expect(given.length).at.most(1);
    await expectDead(
      [third.refresh, ...given.map((pair) => pair.refresh)],
      [third.access, ...given.map((pair) => pair.access)],
    );
  });
});
