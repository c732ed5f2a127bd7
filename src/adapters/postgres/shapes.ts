import type { Knex } from 'knex';
import knex from 'knex';
import { type QueryBuilder, snakeCaseMappers } from 'objection';
import { appError } from '#src/errors.ts';

/** Postgres's type ids (`pg_type.oid`). `vector` has none, because ids of extension types differ. */
const typeIds = {
  boolean: 16,
  bytea: 17,
  bigint: 20,
  integer: 23,
  text: 25,
  'double precision': 701,
  'integer[]': 1007,
  'text[]': 1009,
  date: 1082,
  'timestamp with time zone': 1184,
  numeric: 1700,
  uuid: 2950,
  'uuid[]': 2951,
  tsvector: 3614,
  jsonb: 3802,
  vector: undefined,
} as const;

type ColumnType = keyof typeof typeIds;

export type ColumnDefinition<Value = unknown> = {
  readonly type: ColumnType;
  readonly isNullable: boolean;
  nullable(): ColumnDefinition<Value | null>;
  /** Never set at runtime: lets TypeScript infer `Value` from a column. */
  readonly value?: Value;
};

export type ColumnDefinitions = Readonly<Record<string, ColumnDefinition>>;

type RowOf<C extends ColumnDefinitions> = {
  -readonly [Name in keyof C]: C[Name] extends ColumnDefinition<infer Value> ? Value : never;
};

export type SqlRow<Source extends { columns: ColumnDefinitions }> = RowOf<Source['columns']>;

function column<Value>(type: ColumnType, isNullable = false): ColumnDefinition<Value> {
  return { type, isNullable, nullable: () => column<Value | null>(type, true) };
}

export const uuidColumn = () => column<string>('uuid');
export const textColumn = <Value extends string = string>() => column<Value>('text');
export const integerColumn = <Value extends number = number>() => column<Value>('integer');
/** The driver reads bigint as number, which is exact for sizes and counts. */
export const bigintColumn = () => column<number>('bigint');
export const numericColumn = () => column<number>('numeric');
export const doubleColumn = () => column<number>('double precision');
export const booleanColumn = () => column<boolean>('boolean');
export const timestampColumn = () => column<Date>('timestamp with time zone');
export const dateColumn = () => column<Date>('date');
export const byteaColumn = () => column<Buffer>('bytea');
export const jsonColumn = <Value>() => column<Value>('jsonb');
export const textArrayColumn = <Value extends string = string>() => column<Value[]>('text[]');
export const uuidArrayColumn = () => column<string[]>('uuid[]');
export const integerArrayColumn = () => column<number[]>('integer[]');
export const tsvectorColumn = () => column<string>('tsvector');
export const vectorColumn = () => column<string>('vector');

/** Columns of a statement's result whose rows are not rows of a table. */
export type RowShape<C extends ColumnDefinitions = ColumnDefinitions> = { columns: C };

export function defineRowShape<const C extends ColumnDefinitions>(columns: C): RowShape<C> {
  return { columns };
}

export function pickColumns<C extends ColumnDefinitions, Name extends keyof C>(
  source: RowShape<C>,
  ...names: Name[]
): RowShape<Pick<C, Name>> {
  const columns = Object.fromEntries(names.map((name) => [name, source.columns[name]]));
  return { columns: columns as Pick<C, Name> };
}

/** The key of the last row of a page that a sweep has checked, and the number of rows that it deleted. */
export function sweptPageOf<C extends ColumnDefinitions>({ columns }: RowShape<C>) {
  return defineRowShape({ ...columns, checked: integerColumn(), deleted: integerColumn() });
}

/** A runner without `client` has a connection of its own, which only its `raw` uses. */
export type StatementRunner = Pick<Knex, 'raw'> & { client?: Knex.Client };
type SqlBindings = Readonly<Record<string, unknown>> | readonly unknown[];
// biome-ignore lint/suspicious/noExplicitAny: a builder of any model and result
export type SqlQueryBuilder = Knex.QueryBuilder | QueryBuilder<any, any>;

/**
 * Runs an SQL statement and returns its rows. Compares names and types of the result's columns with the shape each
 * time, so that a wrong shape fails in every test of the statement.
 * @param source a shape, or a model for statements that return its whole rows
 * @param statement SQL text with bindings, or a query builder of knex or objection that was created on `db`
 * @param timeoutMs after this time, the statement is cancelled and a KnexTimeoutError is thrown
 */
export async function queryRows<S extends RowShape>(
  db: StatementRunner,
  source: S,
  statement: string | SqlQueryBuilder,
  bindings: SqlBindings = [],
  timeoutMs?: number,
): Promise<SqlRow<S>[]> {
  const result =
    db.client !== undefined && timeoutMs === undefined && typeof statement === 'string' && isPlain(statement, bindings)
      ? await runPlain(db.client, statement, bindings)
      : await runBuilder(
          typeof statement === 'string' ? db.raw(statement, bindings as Knex.RawBinding[]) : knexQuery(statement),
          timeoutMs,
        );
  const fields = compare(result.fields, source.columns);
  return result.rows.map((values) => rowOf(fields, values)) as SqlRow<S>[];
}

/** Whether knex would send a statement as it is: without `:name`, `??` and bindings that are SQL or undefined. */
function isPlain(sql: string, bindings: SqlBindings): bindings is readonly unknown[] {
  if (!Array.isArray(bindings) || sql.includes('??')) return false;
  return bindings.every((value) => value !== undefined && typeof value?.toSQL !== 'function');
}

/** Runs a statement on a pooled connection, or on the transaction's, without knex's builder and its runner. */
async function runPlain(client: Knex.Client, sql: string, bindings: readonly unknown[]): Promise<Result> {
  const connection = await client.acquireConnection();
  try {
    const { response } = await client.query(connection, { sql, bindings, options: rowsAsArrays });
    return response;
  } finally {
    client.releaseConnection(connection);
  }
}

function runBuilder(builder: Knex.QueryBuilder | Knex.Raw, timeoutMs: number | undefined): Promise<Result> {
  const query = builder
    // Makes `ObservedPostgresClient.processResponse` keep the result's field types, which `queryRows` compares with the
    // shape.
    .queryContext({ keepsResult: true })
    .options(rowsAsArrays);
  return timeoutMs === undefined ? query : query.timeout(timeoutMs, { cancel: true });
}

export async function queryFirstRow<S extends RowShape>(
  db: StatementRunner,
  source: S,
  statement: string | SqlQueryBuilder,
  bindings: SqlBindings = [],
): Promise<SqlRow<S> | undefined> {
  const [row] = await queryRows(db, source, statement, bindings);
  return row;
}

export async function queryOneRow<S extends RowShape>(
  db: StatementRunner,
  source: S,
  statement: string | SqlQueryBuilder,
  bindings: SqlBindings = [],
): Promise<SqlRow<S>> {
  const found = await queryRows(db, source, statement, bindings);
  const [row] = found;
  if (row === undefined || found.length > 1)
    throw new Error(`the statement returned ${found.length} rows instead of one`);
  return row;
}

/** With objects instead of arrays, each row would have to be copied to rename its keys. */
const rowsAsArrays = { rowMode: 'array' };

type Result = { fields: { name: string; dataTypeID: number }[]; rows: unknown[][] };
type Field = { key: string; isNullable: boolean };

function knexQuery(builder: SqlQueryBuilder): Knex.QueryBuilder {
  return 'toKnexQuery' in builder ? builder.toKnexQuery() : builder;
}

const { format } = snakeCaseMappers();
const comparedByColumns = new WeakMap<ColumnDefinitions, Compared>();
type Compared = { expected: Map<string, ColumnDefinition & { key: string }>; fields: Result['fields']; found: Field[] };

function expectedOf(columns: ColumnDefinitions) {
  const names = Object.keys(format(columns));
  return new Map(Object.entries(columns).map(([key, column], index) => [names[index] ?? key, { ...column, key }]));
}

/** Most statements of a shape return its columns in the same order, so the last matching result is kept. */
function compare(fields: Result['fields'], columns: ColumnDefinitions): Field[] {
  let last = comparedByColumns.get(columns);
  if (last === undefined) {
    last = { expected: expectedOf(columns), fields: [], found: [] };
    comparedByColumns.set(columns, last);
  }
  if (last.found.length === 0 || !haveSameTypes(fields, last.fields)) {
    last.found = compareFields(fields, last.expected);
    last.fields = fields;
  }
  return last.found;
}

function haveSameTypes(fields: Result['fields'], others: Result['fields']): boolean {
  return (
    fields.length === others.length &&
    fields.every(({ name, dataTypeID }, at) => name === others[at]?.name && dataTypeID === others[at].dataTypeID)
  );
}

function compareFields(fields: Result['fields'], expected: Compared['expected']): Field[] {
  const differences: string[] = [];
  const compared = fields.map(({ name, dataTypeID }) => {
    const column = expected.get(name);
    if (column === undefined) differences.push(`"${name}" is not in the shape`);
    else if (!hasType(column, dataTypeID)) {
      differences.push(`"${name}" is ${nameOfType(dataTypeID)} and not ${column.type}`);
    }
    return { key: column?.key ?? name, isNullable: column?.isNullable ?? true };
  });
  const given = new Set(fields.map(({ name }) => name));
  if (given.size < fields.length) differences.push('two columns have the same name');
  for (const name of expected.keys()) if (!given.has(name)) differences.push(`"${name}" is missing`);
  if (differences.length > 0)
    throw new Error(`The result of the statement does not match its shape: ${differences.join(', ')}.`);
  return compared;
}

/** Postgres type ids from 16384 on belong to types of extensions. */
function hasType({ type }: ColumnDefinition, id: number): boolean {
  return typeIds[type] === undefined ? id >= 16_384 : typeIds[type] === id;
}

function nameOfType(id: number): string {
  return Object.entries(typeIds).find(([, known]) => known === id)?.[0] ?? `type ${id}`;
}

let checksNulls = false;

/** For tests: makes a null in a non-nullable column throw. In production, it is passed on. */
export function enableNullColumnChecks(): void {
  checksNulls = true;
}

function rowOf(fields: readonly Field[], values: readonly unknown[]): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const [index, { key, isNullable }] of fields.entries()) {
    const value = values[index];
    if (checksNulls && value === null && !isNullable)
      throw new Error(`Column "${key}" is null, but its shape is not nullable.`);
    row[key] = value;
  }
  return row;
}

export async function queryRowsWithTimeout<S extends RowShape>(
  timeoutMs: number,
  db: Knex,
  source: S,
  sql: string,
  bindings: SqlBindings,
): Promise<SqlRow<S>[]> {
  try {
    return await queryRows(db, source, sql, bindings, timeoutMs);
  } catch (error) {
    if (!(error instanceof knex.KnexTimeoutError)) throw error;
    throw appError('service_unavailable', { detail: 'The search took too long.', cause: error });
  }
}
