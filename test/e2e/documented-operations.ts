import type { Page } from 'playwright-core';
import { prefill } from '../../src/http/server/docs-page/prefill.js';

type Parameter = { name: string; in: string; required: boolean; example?: unknown; schema: { default?: unknown } };
export type Operation = {
  operationId: string;
  tags: string[];
  description?: string;
  parameters: Parameter[];
  requestBody?: { content: Record<string, { example?: unknown; schema: { $ref: string } }> };
};
export type DescribedOperation = Operation & { method: string; path: string };
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, { properties: Record<string, { examples?: unknown[] }> }> };
};

/** Null where nothing was sent, because a value must be chosen first. */
export type Tried = { status: number | null; body?: unknown };

/** Someone who sends operations as the page of the documentation has prefilled them. */
export type Caller = {
  /** Uses this token from now on; null for none. */
  authorize(token: string | null): Promise<void>;
  send(operation: DescribedOperation): Promise<Tried>;
};

export const operationsOf = ({ paths }: Document): DescribedOperation[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, ...operation })),
  );

export const readDocument = async (baseUrl: string): Promise<Document> =>
  (await (await fetch(`${baseUrl}/openapi.json`)).json()) as Document;

/** Sends what the page would send, without a browser. */
export async function callerWithoutBrowser(baseUrl: string): Promise<Caller> {
  const document = await readDocument(baseUrl);
  let token: string | null = null;
  let refreshToken: string | undefined;

  const headers = (): Record<string, string> => (token === null ? {} : { authorization: `Bearer ${token}` });
  async function get(path: string): Promise<unknown> {
    if (token === null) return undefined;
    const response = await fetch(`${baseUrl}${path}`, { headers: headers() });
    return response.ok ? response.json() : undefined;
  }

  return {
    authorize: async (next) => {
      token = next;
    },
    async send(operation) {
      const filled = await prefill(operation, get, { refresh_token: refreshToken });
      const path = addressOf(operation, filled.path);
      if (path === null) return { status: null };
      const sent = bodyOf(operation, filled.body, document);
      const sentType: Record<string, string> = typeof sent === 'string' ? { 'content-type': 'application/json' } : {};
      const init = { method: operation.method.toUpperCase(), headers: { ...headers(), ...sentType }, body: sent };
      const response = await fetch(`${baseUrl}${path}`, { ...init, redirect: 'manual' });
      const type = response.headers.get('content-type') ?? '';
      // The stream of all jobs has no end.
      const body = /json/.test(type) ? await response.json() : void (await response.body?.cancel());
      const { access_token, refresh_token } = Object(body);
      if (response.ok && access_token !== undefined) [token, refreshToken] = [access_token, refresh_token];
      return { status: response.status, body };
    },
  };
}

function addressOf({ path, parameters }: DescribedOperation, values: Record<string, unknown>): string | null {
  const valueFor = ({ name, example, schema }: Parameter) => values[name] ?? example ?? schema.default;
  if (parameters.some((parameter) => parameter.required && valueFor(parameter) === undefined)) return null;
  const query = new URLSearchParams();
  for (const each of parameters) {
    if (each.in === 'query' && valueFor(each) !== undefined) query.set(each.name, String(valueFor(each)));
  }
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(values[name])));
  return query.size === 0 ? filled : `${filled}?${query}`;
}

const files: Record<string, () => File> = {
  uploadDocument: () => new File(['# Returns\n\nGoods can be returned within 30 days of delivery.'], 'returns.md'),
  uploadAvatar: () => new File([Buffer.from(gif, 'base64')], 'me.gif'),
};
const gif = 'R0lGODlhAQABAIAAAAUEBAAAACwAAAAAAQABAAACAkQBADs=';

function bodyOf(
  { operationId, requestBody }: DescribedOperation,
  body: unknown,
  document: Document,
): string | FormData | null {
  const [[mediaType = '', media] = []] = Object.entries(requestBody?.content ?? {});
  if (media === undefined) return null;
  if (mediaType === 'application/json') return body === undefined ? null : JSON.stringify(body);
  const { properties } = document.components.schemas[media.schema.$ref.split('/').at(-1) ?? ''] ?? { properties: {} };
  const form = new FormData();
  for (const [name, { examples }] of Object.entries(properties)) if (examples) form.set(name, String(examples[0]));
  const file = files[operationId]?.();
  if (file !== undefined) form.set('file', file);
  return form;
}

/** Opens each operation on the page, and sends it with the button. */
export async function callerInBrowser(page: Page, baseUrl: string): Promise<Caller> {
  await page.goto(`${baseUrl}/docs`);
  await page.locator('.opblock').first().waitFor();

  return {
    async authorize(token) {
      await page.locator('.auth-wrapper .authorize').first().click();
      const dialog = page.locator('.modal-ux');
      await dialog.locator('button.auth').first().waitFor();
      const logout = dialog.locator('button', { hasText: 'Logout' }).first();
      if (await logout.isVisible()) await logout.click();
      if (token !== null) {
        // The first of the ways to authorize is an access token.
        await dialog.locator('input').first().fill(token);
        await dialog.locator('button', { hasText: 'Authorize' }).first().click();
      }
      await dialog.locator('button', { hasText: 'Close' }).first().click();
    },
    async send({ operationId, tags, method, path }) {
      const block = page.locator(`[id="operations-${tags[0]}-${operationId}"]`);
      await block.locator('.opblock-summary-control').click();
      await page.locator(`[id="operations-${tags[0]}-${operationId}"][data-prefilled]`).waitFor();
      const pattern = new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
      const answered = page.waitForResponse(
        (response) =>
          response.request().method() === method.toUpperCase() && pattern.test(new URL(response.url()).pathname),
        { timeout: 60_000 },
      );
      answered.catch(() => undefined);
      await block.locator('button.execute').click();
      const invalid = block.locator('input.invalid, .validation-errors').first();
      const refused = invalid.waitFor({ timeout: 60_000 }).then(() => null);
      refused.catch(() => undefined);
      const response = await Promise.race([answered, refused]);
      if (response !== null && operationId !== 'watchJobs') await block.locator('.live-responses-table').waitFor();
      await block.locator('.opblock-summary-control').click();
      return { status: response?.status() ?? null };
    },
  };
}
