import { type FakeBrave, startFakeBrave } from './fake-brave.ts';
import { type FakeGoogle, startFakeGoogle } from './fake-google.ts';
import { type ScriptedModel, startScriptedModel } from './scripted-model.ts';
import { type Stack, startStack } from './stack.ts';
import { startWebSite, type WebSite } from './web-site.ts';

export type ScriptedStack = Stack & { model: ScriptedModel; site: WebSite; brave: FakeBrave; google: FakeGoogle };

let shared: Promise<ScriptedStack> | undefined;

/**
 * The API and the workers with a chat model that does as it is told, a web of one site that tools may ask, and providers
 * of tools. Database and namespace are its own, so that no other worker, with the real model, takes its work.
 */
export function scriptedStack(): Promise<ScriptedStack> {
  shared ??= startScriptedStack();
  return shared;
}

after(async function closeScriptedStack() {
  await (await shared)?.close();
});

async function startScriptedStack(): Promise<ScriptedStack> {
  const [model, site, brave, google] = await Promise.all([
    startScriptedModel(),
    startWebSite(),
    startFakeBrave(),
    startFakeGoogle(),
  ]);
  const parts = { model, site, brave, google };
  const stack = await startStack({
    OPENAI_BASE_URL: model.baseUrl,
    ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl,
    BRAVE_SEARCH_BASE_URL: brave.baseUrl,
    GOOGLE_CALENDAR_BASE_URL: google.baseUrl,
    GOOGLE_CALENDAR_CLIENT_ID: google.client.id,
    GOOGLE_CALENDAR_CLIENT_SECRET: google.client.secret,
    EGRESS_ALLOW: `${site.place},${brave.place},${google.place}`,
    HTTP_REQUEST_ALLOW: site.place,
    // Long enough for every fold, so that an answer tells of its own round.
    ECHO_WAIT_MS: '10000',
  });
  return {
    ...stack,
    ...parts,
    close: async () => {
      await stack.close();
      await Promise.all(Object.values(parts).map((part) => part.close()));
    },
  };
}
