import type { Knex } from 'knex';
import pg from 'pg';

/** A node of a plan that was carried out. */
export type PlanNode = {
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
};

/** Plans of what is sent to `db`, made on a connection of their own. */
export async function openQueryPlans(db: Knex, url: string) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const nodesOf = (plan: PlanNode): PlanNode[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

  return {
    /** Of each statement that `ask` sends, the nodes that were carried out. */
    async plansOf(ask: () => Promise<unknown>): Promise<PlanNode[][]> {
      const sent: { sql: string; bindings: unknown[] }[] = [];
      const listen = (statement: { sql: string; bindings: unknown[] }) => sent.push(statement);
      db.on('query', listen);
      await ask();
      db.removeListener('query', listen);
      const plans: PlanNode[][] = [];
      for (const { sql, bindings } of sent) {
        const { rows } = await client.query(`explain (analyze, format json) ${sql}`, bindings);
        const nodes = nodesOf(rows[0]['QUERY PLAN'][0].Plan);
        plans.push(nodes.filter((node) => node['Actual Loops'] > 0));
      }
      return plans;
    },
    close: () => client.end(),
  };
}

const onTable = (nodes: readonly PlanNode[], table: string) => nodes.filter((node) => node['Relation Name'] === table);

/** Rows of a table that were wanted, and those that were passed by. */
export function rowsRead(nodes: readonly PlanNode[], table: string): number {
  return onTable(nodes, table).reduce((sum, node) => {
    const seen = node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0);
    return sum + seen * node['Actual Loops'];
  }, 0);
}

/** How many times it was gone through, or looked into. */
export function scansOf(nodes: readonly PlanNode[], table: string): number {
  return onTable(nodes, table).reduce((sum, node) => sum + node['Actual Loops'], 0);
}

export const indexesOf = (nodes: readonly PlanNode[]) => nodes.map((node) => node['Index Name']);
