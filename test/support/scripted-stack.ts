import { startScriptedModel } from './scripted-model.ts';
import { shared } from './shared.ts';
import { startStack } from './stack.ts';
import { startToolProviders } from './tool-stack.ts';
import { startWebSite } from './web-site.ts';

export type ScriptedStack = Awaited<ReturnType<typeof startScriptedStack>>;

async function startScriptedStack() {
  const [model, site, tools] = await Promise.all([startScriptedModel(), startWebSite(), startToolProviders()]);
  const { brave, google, settings, place } = tools;
  const stack = await startStack({
    ...settings,
    OPENAI_BASE_URL: model.baseUrl,
    ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl,
    EGRESS_ALLOW: `${site.place},${place}`,
    HTTP_REQUEST_ALLOW: site.place,
    // Long enough for every fold, so that an answer tells of its own round.
    ECHO_WAIT_MS: '10000',
  });
  const close = async () => {
    await stack.close();
    await Promise.all([model, site, brave, google].map((part) => part.close()));
  };
  return { ...stack, model, site, brave, google, close };
}

/**
 * The API and the workers with a chat model that does as it is told, a web of one site that tools may ask, and providers
 * of tools. Database and namespace are its own, so that no other worker, with the real model, takes its work.
 */
export const scriptedStack = shared(startScriptedStack);
