import { builtInTools } from './tools/built-in-tools.ts';
import { providerTools } from './tools/provider-tools.ts';

/** What a tool does to the outside, as administrators grant it. `crudl`: create, read, update, delete, list. */
export type ToolAction = {
  id: string;
  label: string;
  description: string;
  crudl: 'create' | 'read' | 'update' | 'delete' | 'list';
  /** Scopes that the organization's connection must hold; empty without OAuth. */
  scopes: readonly string[];
};

/** One function that a model may call. */
export type Tool = {
  /** `group.verb`; the model calls it by `functionNameOf(id)`. */
  id: string;
  name: string;
  group: string;
  /** Read by people and by the model alike. */
  description: string;
  /** Whose connection it needs; null for what needs none. */
  provider: string | null;
  actions: readonly ToolAction[];
  /** JSON schema of the arguments, always an object. */
  parameters: Readonly<Record<string, unknown>>;
};

/** The tools that agents of this deployment can be given. */
export const tools: readonly Tool[] = [...builtInTools, ...providerTools];

export function unknownTools(ids: readonly string[]): string[] {
  return ids.filter((id) => !tools.some((tool) => tool.id === id));
}

/** Names of functions may have no dots. */
export function functionNameOf(toolId: string): string {
  return toolId.replaceAll('.', '_');
}
