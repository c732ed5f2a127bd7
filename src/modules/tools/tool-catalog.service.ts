import type { Knex } from 'knex';
import { type Tool, type ToolAction, type ToolProvider, toolProviders, tools } from '#src/domain/agents/tools.ts';
import { appError } from '#src/errors.ts';
import { isConfigured, type ProviderAccesses } from './provider-access.ts';
import type { ToolConnection } from './tool-connections.model.ts';
import { createToolConnectionsRepository } from './tool-connections.repository.ts';

type GrantedAction = ToolAction & { isGranted: boolean };

/** A tool as an organization has it. */
export type ToolView = {
  tool: Tool;
  provider: ToolProvider | null;
  /** The deployment can run it, for whoever is connected. */
  isAvailable: boolean;
  /** Nothing that has to be connected is missing. */
  isConnected: boolean;
  actions: GrantedAction[];
};

/** A provider as an organization is connected to it. */
export type ProviderView = {
  provider: ToolProvider;
  isConfigured: boolean;
  connection: ToolConnection | null;
  tools: Tool[];
  actions: GrantedAction[];
};

/** What tools and providers there are, and what an organization's connections grant. */
export function createToolCatalogService(deps: {
  db: Knex;
  access: ProviderAccesses;
  /** Built-in tools that the settings of the deployment leave out. */
  switchedOff: readonly string[];
}) {
  const { access, switchedOff } = deps;
  const connections = createToolConnectionsRepository(deps.db);

  function isAvailable({ id, provider }: Tool): boolean {
    return provider === null ? !switchedOff.includes(id) : isConfigured(access[provider]);
  }

  async function list(orgId: string): Promise<ToolView[]> {
    const byProvider = new Map((await connections.list(orgId)).map((one) => [one.provider, one]));
    return tools.map((tool) => {
      const connection = tool.provider === null ? null : (byProvider.get(tool.provider) ?? null);
      return {
        tool,
        provider: toolProviders.find(({ id }) => id === tool.provider) ?? null,
        isAvailable: isAvailable(tool),
        isConnected: tool.provider === null || connection?.status === 'active',
        actions: withGrants([tool], connection),
      };
    });
  }

  function viewOf(provider: ToolProvider, connection: ToolConnection | null): ProviderView {
    const ofProvider = tools.filter((tool) => tool.provider === provider.id);
    return {
      provider,
      isConfigured: isConfigured(access[provider.id]),
      connection,
      tools: ofProvider,
      actions: withGrants(ofProvider, connection),
    };
  }

  return {
    list,

    async listProviders(orgId: string): Promise<ProviderView[]> {
      const byProvider = new Map((await connections.list(orgId)).map((one) => [one.provider, one]));
      return toolProviders.map((provider) => viewOf(provider, byProvider.get(provider.id) ?? null));
    },

    async getProvider(orgId: string, providerId: string): Promise<ProviderView> {
      return viewOf(providerOf(providerId), (await connections.find(orgId, providerId)) ?? null);
    },

    /** Ids of the tools that an agent of the organization can call now. */
    async usable(orgId: string): Promise<Set<string>> {
      const usable = (await list(orgId)).filter(
        (view) => view.isAvailable && view.isConnected && view.actions.every(({ isGranted }) => isGranted),
      );
      return new Set(usable.map(({ tool }) => tool.id));
    },
  };
}

export type ToolCatalogService = ReturnType<typeof createToolCatalogService>;

/** Throws `provider_not_found`. */
export function providerOf(id: string): ToolProvider {
  const provider = toolProviders.find((one) => one.id === id);
  if (provider === undefined) throw appError('provider_not_found');
  return provider;
}

function withGrants(of: readonly Tool[], connection: ToolConnection | null): GrantedAction[] {
  const isOpen = connection?.status === 'active';
  return of.flatMap(({ provider, actions }) =>
    actions.map((action) => ({
      ...action,
      isGranted: provider === null || (isOpen && action.scopes.every((scope) => connection.scopes.includes(scope))),
    })),
  );
}
