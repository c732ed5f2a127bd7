import type { Knex } from 'knex';
import knex from 'knex';
import { type QueryBuilder, snakeCaseMappers } from 'objection';
import { appError } from '#src/errors.ts';
import { type Column, type Columns, type Row, typeIds } from './columns.ts';

/** The columns of a result that is no table's row. */
export type Shape<C extends Columns = Columns> = { columns: C };

export function shape<const C extends Columns>(columns: C): Shape<C> {
  return { columns };
}

/** Some of the columns of a model or a shape. */
export function pick<C extends Columns, Name extends keyof C>(
  source: Shape<C>,
  ...names: Name[]
): Shape<Pick<C, Name>> {
  const columns = Object.fromEntries(names.map((name) => [name, source.columns[name]]));
  return { columns: columns as Pick<C, Name> };
}

/** A database, a transaction, or what sends SQL text on one connection. */
export type Statements = Pick<Knex, 'raw'>;
export type Bindings = Readonly<Record<string, unknown>> | readonly unknown[];
// biome-ignore lint/suspicious/noExplicitAny: a builder of any model and result
export type Builder = Knex.QueryBuilder | QueryBuilder<any, any>;

/**
 * The rows of a statement: SQL text with bindings, or a builder of knex or objection, which was made on `db`. Names and
 * types of the columns that Postgres gives are compared with the shape each time, so that a wrong shape fails in every
 * test of the statement.
 * @param source a shape, or a model for statements that give its whole rows
 * @param timeoutMs after this time the statement is cancelled, and a KnexTimeoutError thrown
 */
export async function rows<S extends Shape>(
  db: Statements,
  source: S,
  statement: string | Builder,
  bindings: Bindings = [],
  timeoutMs?: number,
): Promise<Row<S>[]> {
  const query = (
    typeof statement === 'string' ? db.raw(statement, bindings as Knex.RawBinding[]) : knexQuery(statement)
  )
    // See `ObservedPostgres.processResponse`.
    .queryContext({ keepsResult: true })
    // Values in the order of the fields: an object by the names of the columns would only be copied.
    .options({ rowMode: 'array' });
  const result: Result = await (timeoutMs === undefined ? query : query.timeout(timeoutMs, { cancel: true }));
  const fields = compare(result.fields, source.columns);
  return result.rows.map((values) => rowOf(fields, values)) as Row<S>[];
}

/** The first row, which is undefined where there is none. */
export async function firstRow<S extends Shape>(
  db: Statements,
  source: S,
  statement: string | Builder,
  bindings: Bindings = [],
): Promise<Row<S> | undefined> {
  const [row] = await rows(db, source, statement, bindings);
  return row;
}

/** The one row of a statement that always gives one, such as a count. */
export async function oneRow<S extends Shape>(
  db: Statements,
  source: S,
  statement: string | Builder,
  bindings: Bindings = [],
): Promise<Row<S>> {
  const found = await rows(db, source, statement, bindings);
  const [row] = found;
  if (row === undefined || found.length > 1) throw new Error(`the statement gave ${found.length} rows instead of one`);
  return row;
}

type Result = { fields: { name: string; dataTypeID: number }[]; rows: unknown[][] };
type Field = { key: string; isNullable: boolean };

function knexQuery(builder: Builder): Knex.QueryBuilder {
  return 'toKnexQuery' in builder ? builder.toKnexQuery() : builder;
}

const { format } = snakeCaseMappers();
const expectedByColumns = new WeakMap<Columns, Map<string, Column & { key: string }>>();

/** The columns by their names in SQL. */
function expectedOf(columns: Columns) {
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

/** @throws Error that names each difference */
function compare(fields: Result['fields'], columns: Columns): Field[] {
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
  if (differences.length > 0) throw new Error(`The statement does not give its shape: ${differences.join(', ')}.`);
  return compared;
}

/** Ids from 16384 on belong to extensions. */
function hasType({ type }: Column, id: number): boolean {
  return typeIds[type] === undefined ? id >= 16_384 : typeIds[type] === id;
}

function nameOfType(id: number): string {
  return Object.entries(typeIds).find(([, known]) => known === id)?.[0] ?? `type ${id}`;
}

let checksNulls = false;

/** From now on a null where the shape has none is an error. For tests: a service shows what it has instead of nothing. */
export function checkNulls(): void {
  checksNulls = true;
}

function rowOf(fields: readonly Field[], values: readonly unknown[]): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const [index, { key, isNullable }] of fields.entries()) {
    const value = values[index];
    if (checksNulls && value === null && !isNullable) throw new Error(`"${key}" is null, which its shape excludes.`);
    row[key] = value;
  }
  return row;
}

/** As `rows`. Throws `service_unavailable`, and cancels the statement, when it takes longer than `timeoutMs`. */
export async function rowsWithin<S extends Shape>(
  timeoutMs: number,
  db: Knex,
  source: S,
  sql: string,
  bindings: Bindings,
): Promise<Row<S>[]> {
  try {
    return await rows(db, source, sql, bindings, timeoutMs);
  } catch (error) {
    if (!(error instanceof knex.KnexTimeoutError)) throw error;
    throw appError('service_unavailable', { detail: 'The search took too long.', cause: error });
  }
}
