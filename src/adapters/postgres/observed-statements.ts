import type { Knex } from 'knex';
import { isOutage } from './outage.ts';

/** Hears of a statement when it is sent; what it gives hears how it ended: undefined, or a word for its failure. */
export type StatementObserver = (sql: string) => (failure: string | undefined) => void;

type Answered = (error: unknown, result: unknown) => void;
type Connection = { query(statement: unknown, ...rest: unknown[]): unknown };

/** Every statement of a pool, those of transactions and what begins and ends them too. */
export function observeStatements(db: Knex, observe: StatementObserver): void {
  const client: Knex.Client & { acquireRawConnection(): Promise<Connection> } = db.client;
  const connect = client.acquireRawConnection.bind(client);
  client.acquireRawConnection = async () => {
    const connection = await connect();
    const query = connection.query.bind(connection);
    connection.query = (statement: unknown, ...rest: unknown[]) => {
      const answered = rest.at(-1);
      const sql = textOf(statement);
      if (typeof answered !== 'function' || sql === undefined) return query(statement, ...rest);
      const ended = observe(sql);
      const tell: Answered = (error, result) => {
        ended(failureOf(error));
        (answered as Answered)(error, result);
      };
      return query(statement, ...rest.slice(0, -1), tell);
    };
    return connection;
  };
}

function textOf(statement: unknown): string | undefined {
  if (typeof statement === 'string') return statement;
  if (typeof statement !== 'object' || statement === null || !('text' in statement)) return undefined;
  return typeof statement.text === 'string' ? statement.text : undefined;
}

/** The class of its SQLSTATE: there are few, and they say whose fault it was. */
function failureOf(error: unknown): string | undefined {
  if (error === null || error === undefined) return undefined;
  if (isOutage(error)) return 'outage';
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? `sqlstate_${code.slice(0, 2)}` : 'error';
}
