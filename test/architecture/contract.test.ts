import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { listErrors } from '#src/errors.ts';
import type { Route } from '#src/http/routing/route.ts';
import { type Stack, stack } from '#test/support/stack.ts';

/** The sections of the contract that are complete: every answer of theirs has a test through HTTP. */
const completePaths =
  /^\/(anchor-words|auth|entity|folders|documents|chat|agents|agent-drafts|agent-eval|logs|connectors)(\/|$)/;

/** What is tested once for all routes. */
const general = new Set([429, 500, 503]);

/** Lines of the contract that name no endpoint of their own, and words of the tests that hold them. */
const rules: Record<string, string> = {
  '§2.1 needs_profile_completion is true until both names are there':
    '200: sets first and last name, and a blank one removes them',
  '§2.8 membership': '200: returns the enabled teams of the caller and their team admin roles',
  '§2.8 member list with member_limit': '200: lists all members, longest-standing first, to every member',
  '§5.1 access tokens are RS256 JWTs with org_id, team_ids and admin flags':
    '200 returns the keys that verify access tokens',
  '§5.2 refresh tokens are rotated on every use': '200 returns a new pair of tokens',
  '§5.2 refresh tokens are revoked on logout': '204 revokes the refresh token',
  '§5.2 refresh tokens are revoked on a change of the password':
    '204: revokes every refresh token, including the one of the caller',
  '§5.4 one provider, or none': '501: in a deployment without an identity provider; another name is still 400',
  '§5.5 password rule': '422 for a password that breaks the password rule, naming each part',
  '§5.6 emails are trimmed and lowercased':
    '200 for the right password, ignoring case and surrounding spaces of the email',
  '§5.7 roles': 'decides each of the others by what it names, of a team',
  '§7 403 for an admin-only operation by a non-admin': 'decides each of the others by what it names, of a team',
  '§7 400 a way back that is not allowed':
    '400: for a redirect_uri at an origin that is not allowed, or with a query or a fragment',
  '§8 sign-ins that come back, by IP':
    'count sign-ins with an identity provider per address, at their start and at the callback',
  '§7, §8 429 for sign-ins, by IP and email': 'count per address and email, and per address over all emails',
  '§2.2 what is immutable after publish': '422: says of what was published that it is immutable',
  '§2.3 connections and grants of tools': '200: follows what its own organization is connected to, for every member',
  '§2.4 connections of providers': '200: shows what was consented to, and not the credentials',
  '§4.2 the way back to the frontend':
    '303: redirects to return_to with the code, or with the error, in the place of an earlier outcome',
  '§5.8 callbacks are verified by their state':
    '400: for a state that is unknown, expired or of another provider, and without a code',
  '§2.9 credentials are stored encrypted and never shown':
    '201: creates a connection with valid keys, and shows them masked',
  '§2.9 no credentials of providers of files leak':
    'appear in no response, log line or database row, also after errors',
  '§3.2 what a refresh makes of a connection': '200: sets active for a valid grant, and needs_reauth for a revoked one',
  '§4.8 site_id is required for the site-based provider':
    '422: for a return_to at another origin, SharePoint without a site, and unknown parameters',
  '§4.8 the way back to the frontend': '303: redirects to return_to with the error',
  '§4.8 the root by default': '200: shows the folders and files of a bucket',
  '§2.5 Untitled Draft': '201: starts a personal draft whose root version has the defaults',
  '§2.5, §3.3 the counter is neither reset nor given back':
    '204: of the head, makes its parent the head, with its name',
  '§3.3 force deletes the descendants of the parent': '201: by force replaces the descendants, and the number goes on',
  '§3.3 descendants are reparented': '204: puts what comes after it under its parent',
  '§3.3 a rename leaves the counter': '200: changes the title, and neither counter nor order',
  '§3.4 the scope of a draft, and that of its agents': '200: leaves agents that were published before as they are',
  '§3.5 hiding is per user': '204: hides the agent from the list of the caller only, and is idempotent',
  '§4.3 a rubric by the place of the version':
    '200: judges a version with a parent by the anchored rubric, three times an axis',
  '§4.3 a reference enables accuracy':
    '200: has every case answered and judged, for accuracy where there is a reference',
  '§7 422 a comparison without a baseline': '422: a first version without a baseline, over 20 cases, a rubric',
  '§8 20 cases': '422: without a version, for cases without input, over 20 cases, an unknown rubric or model',
  '§3.3 eval start persists the scores': '200: judges the prompt, and the scores stay with the version',
  '§4.4 scores of a commit': '200: scores that are sent with a commit are kept as they are',
  '§4.4 unsent fields inherit': '201: inherits what is not sent and overwrites with what is sent empty',
  '§4.4 a fork ignores the fields beside it': '201: forks a version of a readable draft into a draft of the caller',
  '§7 409 of a version that is not ready': '409: lists what a version lacks',
  '§7 422 both sources of a fork': '422: with two sources, without teams',
  '§8 title length': '422: with a title that is blank, too long, more than one line, or missing',
  '§8 limits of drafts, versions and agents': '409: at the limit of versions',
  '§2.11 folder trees': '200: returns nested folders with their documents',
  '§2.12 chunk with context': '200: shows a chunk where it stands',
  '§4.9 cascade': '204: deletes subfolders and documents with cascade',
  '§4.10 an empty search gives no results': '200: returns nothing for a blank query',
  '§4.10 a search combines names and texts': '200: ranks a name and text match first',
  '§4.5 chats list by agent and by caller': '200 filters by agent',
  '§6 token, then done with the whole answer': '200 with tokens, then done with the whole answer',
  '§6 error with detail': 'ends with exactly one error when the model breaks off',
  '§7 400 unsupported export format': '400 for another format',
  '§7 422 both lists of documents': 'for both lists of documents',
  '§7 422 visibility or teams of a chat that exists': 'for a visibility in a chat that exists',
  '§2.13 stable, drift and refusal are all scored rounds':
    'equal the chats that each user may read, after any concurrent changes',
  '§2.13 current consecutive on- or off-topic round count': '200: returns a round with its scores and events',
  '§4.13 dates are inclusive': '200: includes both ends of a period, and the whole day of a date',
  '§4.13 statistics over readable chats': '200: aggregates over the conversations that each user may read',
  '§8 GET /logs/recent limit': '422: rejects a limit outside of 1 to 31',
  '§8 rounds of a conversation, 1 to 500': '200: returns pages of up to 500 rounds',
  '§8 search of 1 to 200 characters': '422: rejects a missing query, more than 200 characters',
  '§7 404 avatars of users who are disabled or outside': '404: for a disabled or deleted user',
  '§8 avatars of 5 MB': '413: above 5 MB, but not for exactly 5 MB',
  '§8 password length': '204 for a new password of 128 characters, which is kept without Unicode normalization',
  '§8 member count by tier': 'exactly over the limit of',
};

describe('the contract', () => {
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  const folder = join(import.meta.dirname, '..');
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.startsWith('architecture'))
    .map((name) => readFileSync(join(folder, name), 'utf8'));
  const titles = files.flatMap((text) =>
    [...text.matchAll(/\bit\(\s*(['`])(.+?)\1/g)].map(([, , title = '']) => title),
  );

  const statusOf = new Map(listErrors().map(({ code, status }) => [code, status]));

  const lineOf = ({ method, path }: Route) =>
    `${method.toUpperCase()} ${path.replaceAll(/:(\w+)/g, (_, name: string) => `{${name}}`)}`;

  function statusesOf({ access, responses, errors = [] }: Route): number[] {
    const declared = [...Object.keys(responses).map(Number), ...errors.map((code) => statusOf.get(code) ?? 0)];
    return [...new Set(access === 'public' ? declared : [...declared, 401])].filter((status) => !general.has(status));
  }

  it('has a suite for each line of its complete sections, with a test for each answer', () => {
    const missing = api.routes
      .filter(({ path }) => completePaths.test(path))
      .flatMap((route) => {
        const line = lineOf(route);
        const suite = files.find((text) => text.includes(`describe('${line}'`));
        if (suite === undefined) return [`${line} has no suite`];
        const isTested = (status: number) =>
          new RegExp(`\\b(it|describe)\\(\\s*['\`](\\d{3}(,| and| or) )*${status}\\b`).test(suite) ||
          (status === 409 && suite.includes('itHoldsTheLimit('));
        return statusesOf(route).flatMap((status) => (isTested(status) ? [] : [`${line} has no test of ${status}`]));
      });
    expect(missing).deep.equal([]);
  });

  for (const [rule, title] of Object.entries(rules)) {
    it(`has a test of ${rule}`, () => {
      expect(titles.some((found) => found.includes(title))).equal(true);
    });
  }
});
