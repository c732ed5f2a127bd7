import type { Knex } from 'knex';
import { DBError, Model, type Pojo, QueryBuilder } from 'objection';
import type { Columns, Row } from './columns.ts';

/** Throws the errors of pg, whose codes the code knows, instead of objection's wrappers. */
class BaseQueryBuilder<M extends Model, R = M[]> extends QueryBuilder<M, R> {
  override async execute(): Promise<R> {
    try {
      return await super.execute();
    } catch (error) {
      throw error instanceof DBError ? error.nativeError : error;
    }
  }
}

/**
 * The base of all models. knex renames columns for objection, too, so that queries use the names of properties. Nothing
 * is validated at runtime: TypeScript checks what is written, Postgres has the constraints.
 */
export class BaseModel extends Model {
  static override QueryBuilder = BaseQueryBuilder;

  static columns: Columns;

  /** Contents of jsonb columns are written and shown as they are, without a copy. */
  static cloneObjectAttributes = false;

  /**
   * A query of knex that is typed by the columns. Use it to select some of them, and to insert with
   * `onConflict(…).ignore()` and `returning`: objection's types promise all columns there, and its ignored inserts look
   * like inserted ones. It does not write jsonb columns: arrays would become arrays of Postgres.
   */
  static table<M extends { tableName: string; columns: Columns }>(this: M, db: Knex) {
    // biome-ignore lint/complexity/noThisInStatic: the model that it is called of
    return db<Row<M>>(this.tableName);
  }

  override $validate(json: Pojo = this): Pojo {
    return json;
  }
}

/** A change without the properties that are undefined, which objection's types do not take. */
export function defined<Change extends object>(change: Change) {
  const entries = Object.entries(change).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Name in keyof Change]?: Exclude<Change[Name], undefined> };
}

type ModelOf<C extends Columns> = Omit<typeof BaseModel, 'prototype' | 'columns'> & {
  new (): BaseModel & Row<{ columns: C }>;
  columns: C;
};

/**
 * The base class of a table's model: `class DraftModel extends model('drafts', { id: uuid(), … }) {}`.
 * @param idColumns the properties of the primary key
 */
export function model<const C extends Columns>(
  tableName: string,
  columns: C,
  idColumns: (keyof C & string) | (keyof C & string)[] = 'id',
): ModelOf<C> {
  const base: unknown = class extends BaseModel {
    static override tableName = tableName;
    static override idColumn = idColumns;
    static override columns = columns;
    static override jsonAttributes = Object.keys(columns).filter((name) => columns[name]?.type === 'jsonb');
  };
  return base as ModelOf<C>;
}
