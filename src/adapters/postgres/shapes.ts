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

/** A row of a model or a shape: `Row<typeof DraftModel>`. */
export type Row<Source extends { columns: ColumnDefinitions }> = RowOf<Source['columns']>;

function column<Value>(type: ColumnType, isNullable = false): ColumnDefinition<Value> {
  return { type, isNullable, nullable: () => column<Value | null>(type, true) };
}

export const uuid = () => column<string>('uuid');
export const text = <Value extends string = string>() => column<Value>('text');
export const integer = <Value extends number = number>() => column<Value>('integer');
/** The driver reads bigint as number, which is exact for sizes and counts. */
export const bigint = () => column<number>('bigint');
export const numeric = () => column<number>('numeric');
export const double = () => column<number>('double precision');
export const boolean = () => column<boolean>('boolean');
export const timestamp = () => column<Date>('timestamp with time zone');
export const date = () => column<Date>('date');
export const bytea = () => column<Buffer>('bytea');
export const json = <Value>() => column<Value>('jsonb');
export const textArray = <Value extends string = string>() => column<Value[]>('text[]');
export const uuidArray = () => column<string[]>('uuid[]');
export const integerArray = () => column<number[]>('integer[]');
export const tsvector = () => column<string>('tsvector');
export const vector = () => column<string>('vector');

/** The columns of a statement's result that is not a row of a table. */
export type ResultShape<C extends ColumnDefinitions = ColumnDefinitions> = { columns: C };

export function shape<const C extends ColumnDefinitions>(columns: C): ResultShape<C> {
  return { columns };
}

export function pick<C extends ColumnDefinitions, Name extends keyof C>(
  source: ResultShape<C>,
  ...names: Name[]
): ResultShape<Pick<C, Name>> {
  const columns = Object.fromEntries(names.map((name) => [name, source.columns[name]]));
  return { columns: columns as Pick<C, Name> };
}

/** A database, a transaction or a single connection. */
export type StatementRunner = Pick<Knex, 'raw'>;
export type SqlBindings = Readonly<Record<string, unknown>> | readonly unknown[];
// biome-ignore lint/suspicious/noExplicitAny: a builder of any model and result
export type SqlQueryBuilder = Knex.QueryBuilder | QueryBuilder<any, any>;

/**
 * Runs an SQL statement and returns its rows. Compares names and types of the result's columns with the shape each
 * time, so that a wrong shape fails in every test of the statement.
 * @param source a shape, or a model for statements that return its whole rows
 * @param statement SQL text with bindings, or a query builder of knex or objection that was created on `db`
 * @param timeoutMs after this time, the statement is cancelled and a KnexTimeoutError is thrown
 */
export async function rows<S extends ResultShape>(
  db: StatementRunner,
  source: S,
  statement: string | SqlQueryBuilder,
  bindings: SqlBindings = [],
  timeoutMs?: number,
): Promise<Row<S>[]> {
  const query = (
    typeof statement === 'string' ? db.raw(statement, bindings as Knex.RawBinding[]) : knexQuery(statement)
  )
    // Keeps the field types of the result, which `rows` compares with the shape; see
    // `ObservedPostgresClient.processResponse`.
    .queryContext({ keepsResult: true })
    // Reads rows as arrays: with objects, each row would have to be copied to rename its keys.
    .options({ rowMode: 'array' });
  const result: Result = await (timeoutMs === undefined ? query : query.timeout(timeoutMs, { cancel: true }));
  const fields = compare(result.fields, source.columns);
  return result.rows.map((values) => rowOf(fields, values)) as Row<S>[];
}

export async function firstRow<S extends ResultShape>(
  db: StatementRunner,
  source: S,
  statement: string | SqlQueryBuilder,
  bindings: SqlBindings = [],
): Promise<Row<S> | undefined> {
  const [row] = await rows(db, source, statement, bindings);
  return row;
}

export async function oneRow<S extends ResultShape>(
  db: StatementRunner,
  source: S,
  statement: string | SqlQueryBuilder,
  bindings: SqlBindings = [],
): Promise<Row<S>> {
  const found = await rows(db, source, statement, bindings);
  const [row] = found;
  if (row === undefined || found.length > 1)
    throw new Error(`the statement returned ${found.length} rows instead of one`);
  return row;
}

type Result = { fields: { name: string; dataTypeID: number }[]; rows: unknown[][] };
type Field = { key: string; isNullable: boolean };

function knexQuery(builder: SqlQueryBuilder): Knex.QueryBuilder {
  return 'toKnexQuery' in builder ? builder.toKnexQuery() : builder;
}

const { format } = snakeCaseMappers();
const expectedByColumns = new WeakMap<ColumnDefinitions, Map<string, ColumnDefinition & { key: string }>>();

function expectedOf(columns: ColumnDefinitions) {
  let expected = expectedByColumns.get(columns);
  if (expected === undefined) {
    const names = Object.keys(format(columns));
    expected = new Map(
      Object.entries(columns).map(([key, column], index) => [names[index] ?? key, { ...column, key }]),
    );
    expectedByColumns.set(columns, expected);
  }
  return expected;
}

function compare(fields: Result['fields'], columns: ColumnDefinitions): Field[] {
  const expected = expectedOf(columns);
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
export function enableNullChecks(): void {
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

/** Like `rows`, but throws `service_unavailable` after `timeoutMs`. */
export async function rowsWithTimeout<S extends ResultShape>(
  timeoutMs: number,
  db: Knex,
  source: S,
  sql: string,
  bindings: SqlBindings,
): Promise<Row<S>[]> {
  try {
    return await rows(db, source, sql, bindings, timeoutMs);
  } catch (error) {
    if (!(error instanceof knex.KnexTimeoutError)) throw error;
    throw appError('service_unavailable', { detail: 'The search took too long.', cause: error });
  }
}
