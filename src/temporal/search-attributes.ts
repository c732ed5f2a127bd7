import { setTimeout as delay } from 'node:timers/promises';
import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common';
import proto from '@temporalio/proto';
import { type SearchAttributeName, searchAttributeNames } from '#src/contracts/jobs.ts';
import type { TemporalConnection } from './connection.ts';

const KEYWORD = proto.temporal.api.enums.v1.IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD;
const READY_TIMEOUT_MS = 30_000;
const POLL_INTERVAL_MS = 100;

/** Search attributes of a start; those without a value are left out. */
export function searchAttributes(
  values: { [name in SearchAttributeName]?: string | undefined },
): SearchAttributePair[] {
  return searchAttributeNames.flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [{ key: defineSearchAttributeKey(name, 'KEYWORD'), value }];
  });
}

/** Registers those that the namespace lacks, and waits until the server takes them. Safe to repeat and to race. */
export async function registerSearchAttributes({ client, namespace, call }: TemporalConnection): Promise<void> {
  const operator = client.connection.operatorService;
  const known = await call(() => operator.listSearchAttributes({ namespace }), READY_TIMEOUT_MS);
  const missing = searchAttributeNames.filter((name) => !(name in (known.customAttributes ?? {})));
  if (missing.length > 0) {
    const types = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
    await call(() => operator.addSearchAttributes({ namespace, searchAttributes: types }), READY_TIMEOUT_MS);
  }

  // The server's own cache of the namespace lags behind; until it is renewed a start that names them is refused.
  const query = searchAttributeNames.map((name) => `${name} = ''`).join(' OR ');
  const deadline = Date.now() + READY_TIMEOUT_MS;
  for (;;) {
    try {
      await call(() => client.workflowService.countWorkflowExecutions({ namespace, query }));
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await delay(POLL_INTERVAL_MS);
    }
  }
}
