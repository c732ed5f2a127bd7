/**
 * Types of columns by the names that Postgres gives them, with the ids of its catalogue (`pg_type.oid`), which are the
 * same in every database. The id of `vector` is not: it belongs to an extension.
 */
export const typeIds = {
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

export type ColumnType = keyof typeof typeIds;

/** A column of a table or of a result: its type in Postgres, and `Value`, its type in TypeScript. */
export type Column<Value = unknown> = {
  readonly type: ColumnType;
  readonly isNullable: boolean;
  nullable(): Column<Value | null>;
  /** Only for the compiler: there is no such property. */
  readonly value?: Value;
};

export type Columns = Readonly<Record<string, Column>>;

type RowOf<C extends Columns> = { -readonly [Name in keyof C]: C[Name] extends Column<infer Value> ? Value : never };

/** A row of a model or a shape: `Row<typeof DraftModel>`. */
export type Row<Source extends { columns: Columns }> = RowOf<Source['columns']>;

function column<Value>(type: ColumnType, isNullable = false): Column<Value> {
  return { type, isNullable, nullable: () => column<Value | null>(type, true) };
}

export const uuid = () => column<string>('uuid');
/** @typeParam Value a union, where not every text is allowed */
export const text = <Value extends string = string>() => column<Value>('text');
export const integer = <Value extends number = number>() => column<Value>('integer');
/** Sizes and counts: the driver reads them as numbers. */
export const bigint = () => column<number>('bigint');
export const numeric = () => column<number>('numeric');
export const double = () => column<number>('double precision');
export const boolean = () => column<boolean>('boolean');
export const timestamp = () => column<Date>('timestamp with time zone');
export const date = () => column<Date>('date');
export const bytea = () => column<Buffer>('bytea');
/** @typeParam Value the contents, whose keys stay as they are */
export const json = <Value>() => column<Value>('jsonb');
export const textArray = <Value extends string = string>() => column<Value[]>('text[]');
export const uuidArray = () => column<string[]>('uuid[]');
export const integerArray = () => column<number[]>('integer[]');
/** Read and written as text. */
export const tsvector = () => column<string>('tsvector');
/** Read and written as pgvector's text. */
export const vector = () => column<string>('vector');
